"""How much a home holds and whether more fits. Knows numbers only; who measures is given to it.

A measurement is believed for some seconds, and for ten times as long as it took, so that measuring huge homes never
becomes the work. Between measurements the writes of this process are counted in. Other processes' writes and jobs'
show at the next one: what is exceeded by then stays, and further uploads are refused.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from app.homes.errors import QuotaExceeded
from app.homes.open_files import CountedFiles

PATIENCE = 10
"""At most one part in so many of the time is spent on measuring one home."""
HIDDEN = ""
"""Where files are counted that have no name any more: with what lies beside the folders."""
Measure = Callable[[], dict[str, int]]
"""Bytes per folder at the top of the home; "" for what lies beside them."""


@dataclass(frozen=True)
class HomeUsage:
    """Bytes; folders: of each folder at the top of the home. quota_bytes 0: there is none."""

    total_bytes: int
    quota_bytes: int
    folders: dict[str, int]


@dataclass
class _Known:
    """until: by when it is to be measured again; 0: at once. measuring: held meanwhile, so that it is done once."""

    folders: dict[str, int] = field(default_factory=dict)
    until: float = 0.0
    measuring: threading.Lock = field(default_factory=threading.Lock)

    @property
    def total(self) -> int:
        return sum(self.folders.values())


class Ledger:
    """What is known of every home's usage in this process. Safe to share between threads.

    files: those that are open for writing here.
    """

    def __init__(self, ttl_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._ttl_s = ttl_s
        self._clock = clock
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}
        self.files = CountedFiles()

    def usage(self, user: str, quota_bytes: int, measure: Measure) -> HomeUsage:
        known = self._measured(user, measure, anew=True)
        with self._lock:
            return HomeUsage(known.total, quota_bytes, dict(known.folders))

    def forget(self, user: str) -> None:
        """Something went that was not measured: measure when next asked."""
        with self._lock:
            if user in self._known:
                self._known[user].until = 0.0

    def allowance(self, user: str, folder: str, quota_bytes: int, measure: Measure, *, credit: int = 0) -> Allowance:
        """For one upload. credit: the size of the file that it replaces."""
        return Allowance(self, user, folder, quota_bytes, credit, measure)

    def claim(self, user: str, folder: str, size_bytes: int, limit: int, measure: Measure) -> int | None:
        """Count these bytes in if the home then holds at most `limit`; else say how much it holds."""
        known = self._measured(user, measure)
        with self._lock:
            if known.total + size_bytes > limit:
                return known.total
            known.folders[folder] = known.folders.get(folder, 0) + size_bytes
            return None

    def add(self, user: str, folder: str, size_bytes: int) -> None:
        """Count in what was written, or with a negative number what went; nothing if the home was never measured."""
        with self._lock:
            known = self._known.get(user)
            if known is not None:
                known.folders[folder] = max(0, known.folders.get(folder, 0) + size_bytes)

    def _measured(self, user: str, measure: Measure, *, anew: bool = False) -> _Known:
        """anew: again, if the time has come. An upload under way counts for itself and is not held up for that."""
        with self._lock:
            known = self._known.setdefault(user, _Known())
        with known.measuring:
            begin = self._clock()
            if known.until == 0.0 or (anew and begin >= known.until):
                folders = measure()
                hidden = self.files.hidden_bytes(user)
                if hidden:
                    folders[HIDDEN] = folders.get(HIDDEN, 0) + hidden
                took_s = self._clock() - begin
                with self._lock:
                    known.folders = folders
                    known.until = begin + took_s + max(self._ttl_s, PATIENCE * took_s)
        return known


class Allowance:
    """What one upload may still write. Counts its bytes in as they come, so that two uploads see each other."""

    def __init__(self, ledger: Ledger, user: str, folder: str, quota_bytes: int, credit: int, measure: Measure) -> None:
        self._ledger = ledger
        self._user = user
        self._folder = folder
        self._quota_bytes = quota_bytes
        self._credit = credit
        self._measure = measure
        self._taken = 0

    def check(self, size_bytes: int) -> None:
        """Raises QuotaExceeded if so much would not fit, before any of it is there."""
        if self._quota_bytes:
            used = self._ledger.usage(self._user, self._quota_bytes, self._measure).total_bytes
            if used + size_bytes > self._quota_bytes + self._credit:
                raise self._exceeded(used)

    def take(self, size_bytes: int) -> None:
        """Raises QuotaExceeded."""
        if not self._quota_bytes:
            self._ledger.add(self._user, self._folder, size_bytes)
        else:
            limit = self._quota_bytes + self._credit
            used = self._ledger.claim(self._user, self._folder, size_bytes, limit, self._measure)
            if used is not None:
                raise self._exceeded(used)
        self._taken += size_bytes

    def free(self, size_bytes: int) -> None:
        """So much of what was there is gone."""
        self._ledger.add(self._user, self._folder, -size_bytes)

    def settle(self) -> None:
        """The file is there, and what it replaced is not."""
        self._ledger.add(self._user, self._folder, -self._credit)

    def give_back(self) -> None:
        self._ledger.add(self._user, self._folder, -self._taken)
        self._taken = 0

    def _exceeded(self, used: int) -> QuotaExceeded:
        return QuotaExceeded(
            f"The data home may hold {self._quota_bytes} bytes; with this it would hold more.",
            hint="Remove what is not needed, from the trash too: what lies there counts until it is gone.",
            detail={"quota_bytes": self._quota_bytes, "used_bytes": used},
        )
