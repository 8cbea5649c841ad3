"""The folders of jobs: who has one, when its job ended, and the sweeper that moves and deletes them accordingly.

The sweeper touches only jobs/ and trash/jobs/ of homes, and there only folders that jobs have reported. It works with
descriptors from the home on, through no link. It changes the disk first and then the record: after a crash in between
the next pass finds the folder where it is and catches up. Only one pass runs at a time.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import count, groupby, islice

from sqlalchemy import Connection

from app.accounts.service.audit_log import note
from app.homes import store
from app.homes.errors import NameTaken, make_refusal
from app.homes.model import JOBS, TRASH, TRASHED_JOBS, HomesOptions, check_user, home_of
from app.homes.names import check_new_name, check_segment
from app.homes.rooted_directory import RootedDirectory
from app.homes.store import JobFolder
from app.kit.lease import Lease, hold
from app.kit.sql import Database
from app.kit.sql.lease import SqlLease

BATCH = 50
"""Folders per transaction, so that other writers do not wait long."""
OTHER_NAMES = 100
LEASE, LEASE_S = ".janitor", 900.0
"""Name of the lease of a pass, and how long it holds: longer than a batch takes."""
SYSTEM = "system"
TRASHED, PURGED = "JOB_TRASHED", "JOB_PURGED"
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class FolderTimes:
    """When the folder of a job moves or is deleted. The times are None while the job runs."""

    name: str
    path: str
    """Where it is, as tasks name it."""
    is_trashed: bool
    ended_at: datetime | None
    trash_at: datetime | None
    purge_at: datetime | None
    problem: str | None
    """The obstacle to moving or deleting it."""


@dataclass(frozen=True)
class SweepResult:
    """The result of one pass of the sweeper, in folders."""

    trashed: int
    purged: int
    problems: int
    """Folders that it could not move or delete."""


class Folders:
    """Reports of jobs about their folders, jobs/<name> in their user's home; bad names are refused."""

    def __init__(self, database: Database, options: HomesOptions) -> None:
        self.database = database
        self.options = options

    def begun(self, user: str, name: str, *, now: datetime) -> None:
        """The job runs, perhaps again: its folder stays.

        Raises:
            NameTaken: One of this name is in the trash.
        """
        check_user(user)
        check_folder_name(name)
        with self.database.write() as conn:
            row = store.lock_folders(conn, user, [name]).get(name)
            if row is not None and row.trashed_at is not None and row.purged_at is None:
                raise NameTaken(f"The trash has the folder of a job {name}.", hint="Choose another name for the job.")
            if row is None or row.ended_at is not None:
                store.record_folder_use(conn, user, name, now)

    def ended(self, user: str, name: str, ended_at: datetime) -> None:
        """The job has ended in any way. Repeating it changes nothing."""
        check_user(user)
        check_folder_name(name)
        with self.database.write() as conn:
            store.folder_ended(conn, user, name, ended_at)

    def times(self, user: str, names: Sequence[str] | None = None) -> list[FolderTimes]:
        """Of the folders that are there, or of those of them; before anything happens to them."""
        check_user(user)
        with self.database.read() as conn:
            folders = store.folders_of(conn, user, names)
        return [self._read_times(folder) for folder in folders]

    def _read_times(self, folder: JobFolder) -> FolderTimes:
        ended_at, retention = folder.ended_at, self.options.retention
        is_trashed = folder.trashed_at is not None
        inner = f"{TRASHED_JOBS}/{folder.trash_name}" if is_trashed else f"{JOBS}/{folder.name}"
        return FolderTimes(
            folder.name,
            self.options.logical(folder.user, inner),
            is_trashed,
            ended_at,
            retention.trash_at(ended_at) if ended_at else None,
            retention.purge_at(ended_at) if ended_at else None,
            folder.problem,
        )


class RetentionSweeper:
    def __init__(self, database: Database, options: HomesOptions) -> None:
        self.database = database
        self.options = options

    def sweep(self, now: datetime) -> SweepResult:
        """Stage 1: into the trash; stage 2: out of it. What is due for both goes through both.

        Nothing where another pass is in progress: one of two would find gone what the other has not yet recorded.
        """
        lease = SqlLease(self.database, LEASE, ttl_s=LEASE_S)
        with hold(lease) as is_held:
            return self._sweep(now, lease) if is_held else SweepResult(0, 0, 0)

    def _sweep(self, now: datetime, lease: Lease) -> SweepResult:
        retention = self.options.retention
        with self.database.read() as conn:
            to_trash = store.folders_ended_before(conn, now - retention.trash_after, is_trashed=False)
        trashed = [self._move_to_trash(home, batch, now) for home, batch in self._batches(to_trash, lease)]
        last = now - retention.trash_after - retention.purge_after
        with self.database.read() as conn:
            to_purge = store.folders_ended_before(conn, last, is_trashed=True)
        purged = [self._purge(home, batch, now) for home, batch in self._batches(to_purge, lease)]
        problems = len(to_trash) + len(to_purge) - sum(trashed) - sum(purged)
        return SweepResult(sum(trashed), sum(purged), problems)

    def _batches(self, folders: list[JobFolder], lease: Lease) -> Iterator[tuple[RootedDirectory, list[JobFolder]]]:
        """By home, which is open meanwhile. A home that cannot be opened is left for the next pass."""
        for user, theirs in groupby(folders, key=lambda folder: folder.user):
            batches = list(theirs)
            try:
                home = RootedDirectory.at(self.options.root, home_of(user))
            except OSError as error:
                self._record_problem(batches, error)
                continue
            with home:
                rest = iter(batches)
                while batch := list(islice(rest, BATCH)):
                    lease.take()
                    yield home, batch

    def _move_to_trash(self, home: RootedDirectory, batch: list[JobFolder], now: datetime) -> int:
        sizes = [_measure_size(home, f"{JOBS}/{folder.name}") for folder in batch]  # not while others wait for SQL
        done, errors = 0, []
        with self.database.write() as conn:
            unchanged = _select_unchanged(conn, batch)
            for folder, size_bytes in zip(batch, sizes, strict=True):
                if folder not in unchanged:
                    continue
                try:
                    trash_name = _to_trash(home, folder.name)
                except OSError as error:
                    errors.append((folder, error))
                    continue
                self._record_trashed(conn, folder, trash_name, size_bytes, now)
                done += 1
        for folder, problem in errors:
            self._record_problem([folder], problem)
        return done

    def _purge(self, home: RootedDirectory, batch: list[JobFolder], now: datetime) -> int:
        purged: list[tuple[JobFolder, bool]] = []
        for folder in batch:
            with self._log_problems(folder):
                was_there = True
                try:
                    home.remove_tree(f"{TRASHED_JOBS}/{folder.trash_name}")
                except FileNotFoundError:  # its user moved it, or another pass did this
                    was_there = False
                purged.append((folder, was_there))
        with self.database.write() as conn:
            unchanged = _select_unchanged(conn, batch)
            for folder, was_there in purged:
                if folder in unchanged and store.change_folder(conn, folder, purged_at=now, problem=None) and was_there:
                    self._note(conn, PURGED, folder, f"{TRASHED_JOBS}/{folder.trash_name}", folder.size_bytes)
        return len(purged)

    def _record_trashed(
        self, conn: Connection, folder: JobFolder, trash_name: str | None, size_bytes: int | None, now: datetime
    ) -> None:
        """trash_name None: there was nothing to move."""
        if trash_name is None:
            store.change_folder(conn, folder, purged_at=now, problem=None)
            return
        facts = {"trashed_at": now, "trash_name": trash_name, "size_bytes": size_bytes, "problem": None}
        store.change_folder(conn, folder, **facts)
        self._note(conn, TRASHED, folder, f"{JOBS}/{folder.name}", size_bytes)

    def _note(self, conn: Connection, action: str, folder: JobFolder, inner: str, size_bytes: int | None) -> None:
        path = self.options.logical(folder.user, inner)
        note(conn, SYSTEM, action, f"user:{folder.user}", {"path": path, "size_bytes": size_bytes, "job": folder.name})

    @contextmanager
    def _log_problems(self, folder: JobFolder) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self._record_problem([folder], error)

    def _record_problem(self, folders: list[JobFolder], error: OSError) -> None:
        """Logged once, and shown to the user until it is solved."""
        problem = _describe_error(error)
        fresh = [folder for folder in folders if folder.problem != problem]
        if not fresh:
            return
        logger.warning("%d folders of jobs of %s stay: %s", len(fresh), fresh[0].user, problem)
        with self.database.write() as conn:
            for folder in fresh:
                store.change_folder(conn, folder, problem=problem)


def check_folder_name(name: str) -> str:
    check_segment(os.fsencode(name), "job")
    if name.startswith("."):
        raise make_refusal("job", "the name of a job's folder does not begin with a dot")
    return check_new_name(name, field="job")


def _select_unchanged(conn: Connection, batch: list[JobFolder]) -> set[JobFolder]:
    """Those that are unchanged since they were read: a job may have started again."""
    fresh = store.lock_folders(conn, batch[0].user, [folder.name for folder in batch])
    return {
        folder
        for folder in batch
        if folder.name in fresh and _list_moments(fresh[folder.name]) == _list_moments(folder)
    }


def _list_moments(folder: JobFolder) -> tuple[datetime | None, ...]:
    return folder.ended_at, folder.trashed_at, folder.purged_at


def _to_trash(home: RootedDirectory, name: str) -> str | None:
    """Its name in the trash; None if it is neither here nor there."""
    source = f"{JOBS}/{name}"
    try:
        home.lstat(source)
    except FileNotFoundError:
        return name if _is_there(home, f"{TRASHED_JOBS}/{name}") else None
    for folder in (TRASH, TRASHED_JOBS):
        with suppress(FileExistsError):
            home.make_folder(folder)
    for number in count():
        other = name if not number else f"{name[:200]}.{number}"
        try:
            home.rename(source, f"{TRASHED_JOBS}/{other}")
        except FileExistsError:
            if number >= OTHER_NAMES:
                raise
        else:
            return other
    return None


def _is_there(home: RootedDirectory, path: str) -> bool:
    try:
        home.lstat(path)
    except FileNotFoundError:
        return False
    return True


def _measure_size(home: RootedDirectory, path: str) -> int | None:
    try:
        status = home.lstat(path)
        return home.usage(path).size_bytes if stat.S_ISDIR(status.st_mode) else status.st_size
    except OSError:
        return None


def _describe_error(error: OSError) -> str:
    if error.errno == errno.EXDEV:
        return "jobs/ and trash/ lie on different file systems; the operator should mount the home as one"
    if error.errno == errno.ELOOP:
        return "a link stands where a folder of the home should be"
    return os.strerror(error.errno or 0)
