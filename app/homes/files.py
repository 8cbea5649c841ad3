"""A user's files for pages and API: browse, read, write, create, move, remove, measure.

It decides what may be done where through the web server, and what remains of removed files. Paths are texts relative to
the home. It knows users only by name, no HTTP, and nothing about jobs.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime

from app.homes import names as file_names
from app.homes.errors import FileMissing, HomeMissing, HomeUnavailable, disk_errors, make_refusal
from app.homes.home_paths import HomePath
from app.homes.model import (
    COMMON,
    COMMON_FOLDERS,
    HOME_FOLDERS,
    PRIVATE_COMMON,
    TMP,
    TRASH,
    TRASHED_FILES,
    USERS,
    Entry,
    HomesOptions,
    Kind,
    Page,
    Quota,
    check_may_enter,
    check_may_leave,
    home_of,
    removed_at,
    stamp_name,
)
from app.homes.path_openers import Opener
from app.homes.quota import Allowance, HomeUsage, Measurement, UsageTracker
from app.homes.read_only_tree import PAGE_ENTRIES, ReadOnlyTree, entry, etag_of
from app.homes.rooted_directory import DRAFT_PREFIX, Draft, RootedDirectory, kind_of
from app.kit.objects import CHUNK_BYTES

STALE_DRAFT_S = 24 * 3600
Require = Callable[[str | None], None]
"""Given the ETag of what is at a path, None for nothing; raises an error to refuse the change."""


class HomeFiles:
    """Safe to share between threads. Every method may raise PathRefused, HomeMissing, HomeDenied, HomeUnavailable.

    quota: the user's; None for the installation's.
    """

    def __init__(
        self, options: HomesOptions, *, opener: Opener | None = None, tracker: UsageTracker | None = None
    ) -> None:
        self.options = options
        self._opener = opener
        self._tracker = tracker or UsageTracker(options.usage_ttl_s)

    def prepare(self) -> None:
        """Creates the shared folders, if they do not exist. Existing ones keep the operator's settings."""
        self._check_mounted()
        with disk_errors(str(self.options.root)):
            self.options.root.mkdir(parents=True, exist_ok=True)
            with RootedDirectory.at(self.options.root, opener=self._opener) as root:
                for folder in (USERS, COMMON, *(f"{COMMON}/{name}" for name in COMMON_FOLDERS)):
                    _ensure_folder(root, folder)

    def create(self, user: str) -> None:
        """Creates the user's home, or its missing parts. May be repeated."""
        inner = home_of(user)
        self.prepare()
        with disk_errors(inner):
            with RootedDirectory.at(self.options.root, USERS, self._opener) as users:
                _ensure_folder(users, user)
            with RootedDirectory.at(self.options.root, inner, self._opener) as home:
                for folder in HOME_FOLDERS:
                    _ensure_folder(home, folder)

    def home(self, user: str) -> ReadOnlyTree:
        """The user's own, for reading."""
        return ReadOnlyTree(lambda: self.opened(user))

    def common(self) -> ReadOnlyTree:
        """The folder that everybody may read, without the service's own files."""
        return ReadOnlyTree(self._open_common, hidden=frozenset(PRIVATE_COMMON))

    def tree(self, user: str, location: HomePath) -> ReadOnlyTree:
        """The one of both that contains the location."""
        return self.common() if location.is_common else self.home(user)

    def browse(self, user: str, path: str = "", *, cursor: str | None = None, limit: int = PAGE_ENTRIES) -> Page:
        """Returns a page of a folder's entries.

        Args:
            path: in the home; empty: the home itself.
            cursor: from the previous page; None: the first page.
        """
        return self.home(user).browse(path, cursor=cursor, limit=limit)

    def info(self, user: str, path: str) -> Entry:
        """Returns what is at a path of the home.

        Raises:
            FileMissing: Nothing is there.
        """
        return self.home(user).info(path)

    def read(
        self, user: str, path: str, *, start: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        """See `ReadOnlyTree.read`."""
        return self.home(user).read(path, start=start, end=end, chunk_bytes=chunk_bytes)

    def write(
        self,
        user: str,
        path: str,
        chunks: Iterable[bytes],
        *,
        replace: bool = False,
        require: Require | None = None,
        expected_bytes: int = 0,
        quota: Quota | None = None,
    ) -> Entry:
        """Stores a stream as a file in constant memory. It appears completely or not at all, whatever `chunks` raises.

        Args:
            replace: replace a file of this name.
            require: of the file that is there, before the stream is read and when it is about to be replaced.
            expected_bytes: the size, if known: a file that cannot fit is refused before it is read.
            quota: instead of the one of the installation.

        Raises:
            NameTaken: The name exists, and is not to be replaced.
            QuotaExceeded, TooManyFiles, HomeDiskFull: There is no room for it.
            FileMissing: The folder does not exist.
        """
        place = _find_new_place(path)
        target = "/".join(place)
        with self.opened(user) as home, ExitStack() as stack:
            with disk_errors(path):
                replaced = _find_replaced(home, target, replace=replace)
            _check(require, replaced)
            credit = replaced.st_size if replaced else 0
            allowance = self.allowance(user, home, place[0], credit=credit, quota=quota)
            allowance.check(expected_bytes)
            try:
                if replaced is None:
                    allowance.take_file()  # before the draft exists and would be measured
                with disk_errors(path):
                    _ensure_folder(home, TMP)
                    draft = stack.enter_context(home.draft(TMP))
                _fill(draft, chunks, allowance, path)
                with disk_errors(path):
                    current = _find_replaced(home, target, replace=replace)
                _check(require, current)
                with disk_errors(path):
                    status = draft.publish(target, replace=replace)
            except BaseException:
                allowance.give_back()
                raise
            allowance.settle()
        return entry(place, status)

    def make_folder(self, user: str, path: str, *, quota: Quota | None = None) -> None:
        """Makes a folder.

        Raises:
            NameTaken: Something is there.
            FileMissing: The folder above is missing.
            TooManyFiles: The quota has no room for it.
        """
        place = _find_new_place(path)
        with self.opened(user) as home:
            allowance = self.allowance(user, home, place[0], quota=quota)
            with allowance.one_more(), disk_errors(path):
                home.make_folder("/".join(place))

    def move(self, user: str, source: str, target: str) -> None:
        """Moves from anywhere into a permanent folder, so that a result outlives its job's folder.

        Args:
            target: the complete new path, not a folder for it.

        Raises:
            NameTaken: Something is at the target.
            FileMissing: Nothing is at the source, or the folder of the target is missing.
        """
        leaving = file_names.from_text(source, field="source")
        check_may_leave(leaving, field="source")
        place = _find_new_place(target, field="target")
        if place[: len(leaving)] == leaving:
            raise make_refusal("target", "it is the source, or lies in it")
        with self.opened(user) as home:
            with disk_errors(source, field="source"):
                home.lstat("/".join(leaving))
            with disk_errors(target, field="target"):
                home.rename("/".join(leaving), "/".join(place))
        self._tracker.forget(user)

    def remove(self, user: str, path: str, *, now: datetime, require: Require | None = None) -> str | None:
        """Moves a file, link or folder to the trash; entries of the trash or of tmp/ are deleted permanently.

        Args:
            require: of what is there.

        Returns:
            Its new path, from where it can be moved back; None if it is deleted.

        Raises:
            FileMissing: Nothing is there.
        """
        place = file_names.from_text(path)
        check_may_leave(place)
        trashed = None
        with self.opened(user) as home, disk_errors(path):
            _check(require, home.lstat("/".join(place)))
            if place[0] in (TRASH, TMP):
                home.remove_tree("/".join(place))
            else:
                _ensure_folder(home, TRASH)
                _ensure_folder(home, TRASHED_FILES)
                trashed = f"{TRASHED_FILES}/{stamp_name(place[-1], now)}"
                home.rename("/".join(place), trashed)
        self._tracker.forget(user)
        return trashed and file_names.path_to_text(trashed.split("/"))

    def usage(self, user: str, *, quota: Quota | None = None) -> HomeUsage:
        """Returns how much of the quota is used, perhaps as it was `usage_ttl_s` ago.

        Args:
            user: whose home it is.
            quota: None: the installation's.
        """
        with self.opened(user) as home:
            return self._tracker.usage(user, quota or self.options.quota(), lambda: _measure(home))

    def sweep(self, user: str, *, now: datetime) -> list[str]:
        """Deletes removed files that were in the trash long enough, and interrupted uploads. Returns their paths."""
        gone = []
        with self.opened(user) as home, disk_errors("the data home"):
            for path in [*self._list_stale_files(home, now), *_list_stale_drafts(home, now)]:
                with suppress(FileNotFoundError):
                    home.remove_tree(path)
                    gone.append(file_names.path_to_text(path.split("/")))
        if gone:
            self._tracker.forget(user)
        return gone

    def allowance(
        self, user: str, home: RootedDirectory, folder: str, *, credit: int = 0, quota: Quota | None = None
    ) -> Allowance:
        """Returns how much may still be written into the opened home.

        Args:
            folder: the one at the home's top.
            credit: bytes that will be replaced.
            quota: replaces the installation's.
        """
        return self._tracker.allowance(
            user, folder, quota or self.options.quota(), lambda: _measure(home), credit=credit
        )

    @contextmanager
    def opened(self, user: str) -> Iterator[RootedDirectory]:
        """The home, for operations in it, which raise OSError.

        Raises:
            HomeMissing: The user has none.
            PathRefused: It cannot be opened.
        """
        inner = home_of(user)
        self._check_mounted()
        try:
            with disk_errors(inner, field="user"):
                home = RootedDirectory.at(self.options.root, inner, self._opener)
        except FileMissing:
            raise HomeMissing(f"The user {user} has no data home yet.", hint="Ask the operator to make it.") from None
        with home:
            yield home

    def _check_mounted(self) -> None:
        mount = self.options.mount
        if mount is not None and not mount.is_mount():
            raise HomeUnavailable(
                f"The disk of the data homes is not mounted at {mount}.", hint="The operator has to mount it."
            )

    @contextmanager
    def _open_common(self) -> Iterator[RootedDirectory]:
        self._check_mounted()
        with disk_errors("the common folder"):
            common = RootedDirectory.at(self.options.root, COMMON, self._opener)
        with common:
            yield common

    def _list_stale_files(self, home: RootedDirectory, now: datetime) -> list[str]:
        since = {name: removed_at(name) for name in _list_names(home, TRASHED_FILES)}
        is_stale = self.options.retention.is_stale
        return [f"{TRASHED_FILES}/{name}" for name, moment in since.items() if moment and is_stale(moment, now)]


def _list_stale_drafts(home: RootedDirectory, now: datetime) -> list[str]:
    stale = []
    for path in (f"{TMP}/{name}" for name in _list_names(home, TMP) if name.startswith(DRAFT_PREFIX)):
        with suppress(FileNotFoundError):
            if now.timestamp() - home.lstat(path).st_mtime > STALE_DRAFT_S:
                stale.append(path)
    return stale


def _list_names(home: RootedDirectory, folder: str) -> list[str]:
    with suppress(FileNotFoundError):
        return [name.name for name in home.names(folder)]
    return []


def _fill(draft: Draft, chunks: Iterable[bytes], allowance: Allowance, path: str) -> None:
    for chunk in chunks:  # whose own errors propagate
        allowance.take(len(chunk))
        with disk_errors(path):
            draft.write(chunk)


def _find_new_place(path: str, *, field: str = "path") -> list[str]:
    place = file_names.from_text(path, field=field)
    check_may_enter(place, field=field)
    file_names.check_new_name(place[-1], field=field)
    return place


def _find_replaced(home: RootedDirectory, target: str, *, replace: bool) -> os.stat_result | None:
    """The file that an upload replaces, if any. Reports obstacles before the upload is read."""
    with home.parent(target) as (folder_fd, name):
        try:
            status = os.stat(name, dir_fd=folder_fd, follow_symlinks=False)
        except FileNotFoundError:
            return None
    if not replace:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    if kind_of(status.st_mode) is Kind.FOLDER:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), target)
    return status


def _check(require: Require | None, status: os.stat_result | None) -> None:
    if require is not None:
        require(etag_of(status) if status else None)


def _ensure_folder(directory: RootedDirectory, folder: str) -> None:
    with suppress(FileExistsError):
        directory.make_folder(folder)


def _measure(home: RootedDirectory) -> Measurement:
    with disk_errors("the data home"):
        seen: set[tuple[int, int]] = set()
        folders, files = {"": 0}, 0
        for name in home.names():
            files += 1
            if name.kind is Kind.FOLDER:
                below = home.usage(name.name, seen)
                folders[name.name] = below.size_bytes
                files += below.files
            else:
                folders[""] += home.lstat(name.name).st_size
        return Measurement(folders, files)
