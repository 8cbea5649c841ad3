"""What a data home is: its folders, whose it is, what may be changed in it, when a job's folder goes. Pure.

{root}/common/{datasets,models,code,hf}          everybody reads, the operator writes
{root}/users/{user}/{datasets,models,code}       the user's own {root}/users/{user}/{jobs,trash,tmp}
results; what is on its way out; uploads on their way in
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from app.accounts.model import NAME, RESERVED
from app.homes.errors import make_refusal

USERS, COMMON = "users", "common"
DATASETS, MODELS, CODE, JOBS, TRASH, TMP = "datasets", "models", "code", "jobs", "trash", "tmp"
TRASHED_JOBS, TRASHED_FILES = f"{TRASH}/jobs", f"{TRASH}/files"
KEPT = (DATASETS, MODELS, CODE)
"""The folders that the user fills and nothing clears."""
HOME_FOLDERS = (*KEPT, JOBS, TRASH, TRASHED_JOBS, TRASHED_FILES, TMP)
COMMON_FOLDERS = (DATASETS, MODELS, CODE, "hf")
PRIVATE_COMMON = ("db", "logs", "sftpgo")
"""Where an installation may keep the service's own files on the shared storage: no task may read them."""
FOLDER_MODE, FILE_MODE = 0o750, 0o640
_STAMP = "%Y%m%dT%H%M%S%fZ"
_CONTINUATION = bytes(range(0x80, 0xC0))
"""The bytes with which no character of UTF-8 starts."""


class Kind(StrEnum):
    FOLDER = "folder"
    FILE = "file"
    LINK = "link"
    OTHER = "other"
    """A device, a pipe or a socket."""


@dataclass(frozen=True)
class Retention:
    """Retention times, counted from the end of the job, or from the removal of a file."""

    trash_after: timedelta = timedelta(days=3)
    purge_after: timedelta = timedelta(days=7)
    """In the trash, after that."""

    def trash_at(self, ended_at: datetime) -> datetime:
        return ended_at + self.trash_after

    def purge_at(self, ended_at: datetime) -> datetime:
        return ended_at + self.trash_after + self.purge_after

    def is_stale(self, removed_at: datetime, now: datetime) -> bool:
        """Whether a file has been in the trash long enough."""
        return now >= removed_at + self.purge_after


@dataclass(frozen=True)
class Quota:
    """The maximum size of a home; 0: no limit."""

    size_bytes: int = 0
    files: int = 0
    """Files and folders, without the folders that every home has."""


@dataclass(frozen=True)
class HomesOptions:
    """Where the homes are, and how much they may hold."""

    root: Path
    """Where the shared storage is mounted here."""
    logical_root: str = "/private"
    """Its name for tasks and users."""
    quota_bytes: int = 0
    """For homes of users without their own; 0: no limit."""
    retention: Retention = field(default_factory=Retention)
    usage_ttl_s: float = 10.0
    """How long a measured usage is trusted."""
    quota_files: int = 0
    """Like quota_bytes, for the number of files and folders."""
    mount: Path | None = None
    """Where a disk has to be mounted for the homes to be used; None: this is not checked."""

    @property
    def prefix(self) -> str:
        return self.logical_root.rstrip("/")

    def quota(self, own_bytes: int | None = None, own_files: int | None = None) -> Quota:
        """For a user, with their own limits; None: the installation's."""
        return Quota(
            self.quota_bytes if own_bytes is None else own_bytes, self.quota_files if own_files is None else own_files
        )

    def logical(self, user: str, inner: str = "") -> str:
        """/private/users/alice/datasets: the form in tasks."""
        return "/".join(part for part in (self.prefix, home_of(user), inner) if part)


@dataclass(frozen=True)
class Entry:
    """An entry of a folder. Its name and path are texts from app.homes.names."""

    name: str
    path: str
    """From the home."""
    kind: Kind
    size_bytes: int
    """0 for a folder."""
    modified_at: datetime
    etag: str
    """Changes when the content does."""


@dataclass(frozen=True)
class Page:
    entries: list[Entry]
    total: int
    """How many the folder has."""
    next_cursor: str | None


def check_user(name: str) -> str:
    """Checks that the name may be that of a folder, before it becomes a path."""
    if NAME.fullmatch(name) is None or name in RESERVED:
        raise make_refusal("user", f"{name!r} is no name of a user")
    return name


def home_of(user: str) -> str:
    """users/alice, from the root."""
    return f"{USERS}/{check_user(user)}"


def check_may_leave(names: list[str], *, field: str = "path") -> None:
    """Checks that something may be moved or removed.

    Raises:
        PathRefused: It is the home itself, or one of its permanent folders.
    """
    if not names or "/".join(names) in HOME_FOLDERS:
        raise make_refusal(
            field, "this folder is part of every data home and stays", hint="Remove or move what lies in it."
        )


def check_may_enter(names: list[str], *, field: str = "path") -> None:
    """Checks that users may write there: jobs/ belongs to jobs, trash/ and tmp/ are cleared.

    Raises:
        PathRefused: They may not.
    """
    if len(names) < 2 or names[0] not in KEPT:
        folders = ", ".join(f"{name}/" for name in KEPT)
        raise make_refusal(field, f"only {folders} take files", hint=f"Put it into one of {folders}")


def stamp_name(name: str, removed_at: datetime) -> str:
    """The name of a removed file in trash/files: the time of removal and, as far as there is room, its name."""
    stamp = removed_at.astimezone(UTC).strftime(_STAMP) + "-"
    whole = name.encode("utf-8", "surrogateescape")
    ending = whole[-(255 - len(stamp)) :]
    if ending != whole:
        ending = ending.lstrip(_CONTINUATION)  # the end matters most, but not half a character
    return stamp + ending.decode("utf-8", "surrogateescape")


def removed_at(name: str) -> datetime | None:
    """The removal time in a name in trash/files; None if there is none."""
    stamp = name.split("-", 1)[0]
    try:
        moment = datetime.strptime(stamp, _STAMP).replace(tzinfo=UTC)
    except ValueError:
        return None
    return moment if moment.strftime(_STAMP) == stamp else None  # strptime takes digits that are omitted
