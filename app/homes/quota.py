"""The size of a home and whether more fits. Handles only numbers; the measuring function is passed in.

A measurement is trusted for some seconds, and for ten times as long as it took, so that measuring huge homes never
dominates. Between measurements the writes of this process are added. Writes of other processes and jobs appear at the
next one: an exceeded quota is then accepted, and further uploads are refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from app.homes.counted_files import CountedFiles
from app.homes.errors import QuotaExceeded, TooManyFiles
from app.homes.model import HOME_FOLDERS, Quota

MEASURE_SHARE = 10
"""At most one part in this many of the time is spent on measuring one home."""
HIDDEN = ""
"""Where files without a name are counted: with the entries beside the folders."""


@dataclass(frozen=True)
class Measurement:
    folders: dict[str, int]
    """Bytes per top-level folder of the home, "" for entries beside them."""
    files: int
    """All files and folders."""


Measure = Callable[[], Measurement]


@dataclass(frozen=True)
class Addition:
    """The size of an addition to a home."""

    size_bytes: int | None = None
    """None if it does not matter."""
    files: int = 0
    credit: int = 0
    """Bytes of the replaced file."""


@dataclass(frozen=True)
class HomeUsage:
    total_bytes: int
    files: int
    """Files and folders, without the folders that every home has."""
    quota: Quota
    folders: dict[str, int]
    """Bytes of each top-level folder of the home."""


@dataclass
class _KnownUsage:
    folders: dict[str, int] = field(default_factory=dict)
    files: int = 0
    is_measured: bool = False
    is_forgotten: bool = False
    """Something was removed since, so the value is too high."""
    until: float = 0.0
    """When it is to be measured again, by the tracker's clock."""
    measuring: threading.Lock = field(default_factory=threading.Lock)
    """Held during a measurement, so that it happens once."""

    @property
    def total(self) -> int:
        return sum(self.folders.values())


class UsageTracker:
    """The usage of every home as known to this process. Safe to share between threads.

    files: those open for writing here.
    """

    def __init__(self, ttl_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._usages: dict[str, _KnownUsage] = {}
        self.files = CountedFiles()

    def usage(self, user: str, quota: Quota, measure: Measure) -> HomeUsage:
        usage = self._measure_usage(user, measure, is_due=True, is_forgotten_due=True)
        with self._lock:
            return HomeUsage(usage.total, usage.files, quota, dict(usage.folders))

    def forget(self, user: str) -> None:
        """Something unmeasured was removed or moved. The known value is at most too high: see fit."""
        with self._lock:
            if user in self._usages:
                self._usages[user].is_forgotten = True

    def allowance(self, user: str, folder: str, quota: Quota, measure: Measure, *, credit: int = 0) -> Allowance:
        """For one upload.

        Args:
            credit: the size of the file that it replaces.
        """
        return Allowance(self, user, folder, quota, credit, measure)

    def fit(
        self,
        user: str,
        folder: str,
        quota: Quota,
        measure: Measure,
        addition: Addition,
        *,
        is_begin: bool,
        is_look: bool = False,
    ) -> None:
        """Adds this if the home then stays within its quota. Nothing is refused because of outdated values.

        Args:
            folder: the one at the home's top.
            measure: counts what the home holds; called only when that is not known or out of date.
            addition: bytes and files.
            is_begin: something new starts: the home is measured again if the time has come. What is in progress is not
                held up for that.
            is_look: count nothing in.

        Raises:
            QuotaExceeded, TooManyFiles: It does not fit.
        """
        if not self._fits(self._measure_usage(user, measure, is_due=is_begin), folder, quota, addition, is_look):
            usage = self._measure_usage(user, measure, is_due=True, is_forgotten_due=True)
            if not self._fits(usage, folder, quota, addition, is_look):
                raise _make_exceeded(usage, quota, addition)

    def add(self, user: str, folder: str, size_bytes: int, *, files: int = 0) -> None:
        """Adds what was written; nothing if the home was never measured.

        Args:
            folder: the one at the home's top.
            size_bytes: negative: what went.
            files: negative: how many went.
        """
        with self._lock:
            usage = self._usages.get(user)
            if usage is not None:
                usage.folders[folder] = max(0, usage.folders.get(folder, 0) + size_bytes)
                usage.files = max(0, usage.files + files)

    def _fits(self, usage: _KnownUsage, folder: str, quota: Quota, addition: Addition, is_look: bool) -> bool:
        with self._lock:
            if (
                addition.size_bytes is not None
                and 0 < quota.size_bytes < usage.total + addition.size_bytes - addition.credit
            ):
                return False
            if addition.files and 0 < quota.files < usage.files + addition.files:
                return False
            if not is_look:
                usage.folders[folder] = usage.folders.get(folder, 0) + (addition.size_bytes or 0)
                usage.files += addition.files
            return True

    def _measure_usage(
        self, user: str, measure: Measure, *, is_due: bool = False, is_forgotten_due: bool = False
    ) -> _KnownUsage:
        """At least once; is_due: again, if it is time; is_forgotten_due: if something was removed meanwhile."""
        with self._lock:
            usage = self._usages.setdefault(user, _KnownUsage())
        with usage.measuring:
            begin = self._clock()
            is_out = (is_due and begin >= usage.until) or (is_forgotten_due and usage.is_forgotten)
            if not usage.is_measured or is_out:
                measurement = measure()
                folders = dict(measurement.folders)
                hidden = self.files.hidden_bytes(user)
                if hidden:
                    folders[HIDDEN] = folders.get(HIDDEN, 0) + hidden
                took_s = self._clock() - begin
                with self._lock:
                    usage.folders, usage.files = folders, max(0, measurement.files - len(HOME_FOLDERS))
                    usage.is_measured, usage.is_forgotten = True, False
                    usage.until = begin + took_s + max(self._ttl_s, MEASURE_SHARE * took_s)
        return usage


class Allowance:
    """How much one upload may still write. It adds bytes as they arrive, so that concurrent uploads see each other.

    Args:
        folder: of the user that it is counted for; empty: the home as a whole.
        credit: size of what it replaces, in bytes.
        measure: counts what the home holds.
    """

    def __init__(
        self, tracker: UsageTracker, user: str, folder: str, quota: Quota, credit: int, measure: Measure
    ) -> None:
        self._tracker = tracker
        self._user = user
        self._folder = folder
        self._quota = quota
        self._credit = credit
        self._measure = measure
        self._taken = self._files = 0

    def check(self, size_bytes: int) -> None:
        """Checks that this much fits, before any of it is written.

        Raises:
            QuotaExceeded: It does not.
        """
        if self._quota.size_bytes:
            self._fit(Addition(size_bytes, credit=self._credit), is_begin=True, is_look=True)

    def refresh(self) -> None:
        """Measure the home again, if that was long ago."""
        if self._quota.size_bytes:
            self._tracker.usage(self._user, self._quota, self._measure)

    def take(self, size_bytes: int) -> None:
        """Takes room for what is about to be written.

        Raises:
            QuotaExceeded: There is none.
        """
        if self._quota.size_bytes:
            self._fit(Addition(size_bytes, credit=self._credit))
        else:
            self._tracker.add(self._user, self._folder, size_bytes)
        self._taken += size_bytes

    def take_file(self) -> None:
        """One more file or folder.

        Raises:
            TooManyFiles: There may be no more.
        """
        if self._quota.files:
            self._fit(Addition(files=1), is_begin=True)
        else:
            self._tracker.add(self._user, self._folder, 0, files=1)
        self._files += 1

    @contextmanager
    def one_more(self) -> Iterator[None]:
        """Of a file or folder that is made meanwhile. See `take_file`."""
        self.take_file()
        try:
            yield
        except BaseException:
            self.give_back()
            raise

    def free(self, size_bytes: int) -> None:
        """This much of the existing data is gone."""
        self._tracker.add(self._user, self._folder, -size_bytes)

    def settle(self) -> None:
        """The file exists, and what it replaced does not."""
        self._tracker.add(self._user, self._folder, -self._credit)

    def give_back(self) -> None:
        self._tracker.add(self._user, self._folder, -self._taken, files=-self._files)
        self._taken = self._files = 0

    def _fit(self, addition: Addition, *, is_begin: bool = False, is_look: bool = False) -> None:
        self._tracker.fit(
            self._user, self._folder, self._quota, self._measure, addition, is_begin=is_begin, is_look=is_look
        )


def _make_exceeded(usage: _KnownUsage, quota: Quota, addition: Addition) -> QuotaExceeded | TooManyFiles:
    if addition.size_bytes is not None:
        return QuotaExceeded(
            f"The data home may hold {quota.size_bytes} bytes; with this it would hold more.",
            hint="Remove what is not needed, from the trash too: files there count towards your quota.",
            detail={"quota_bytes": quota.size_bytes, "used_bytes": usage.total},
        )
    return TooManyFiles(
        f"The data home may hold {quota.files} files and folders; with this it would hold more.",
        hint="Remove what is not needed, from the trash too, or pack many small files into one archive.",
        detail={"quota_files": quota.files, "used_files": usage.files},
    )
