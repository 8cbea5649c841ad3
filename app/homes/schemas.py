"""What the JSON API of homes takes and gives, and what the forms of its pages send."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from app.accounts.schemas import MeAnswer as AccountAnswer
from app.homes.model import Entry, Kind
from app.homes.read_only_tree import PAGE_ENTRIES, Sort
from app.kit.web.http import answer_of
from app.kit.web.strict import Strict

MAX_ENTRIES = 1000
MAX_CURSOR = 1100
"""A name of 255 bytes, each of them escaped, and what it is sorted by."""
Path = Annotated[str, Field(max_length=4096)]
Password = Annotated[str, Field(max_length=1000)]


class FolderQuery(Strict):
    path: Path = ""
    """/private/users/<me>/datasets, datasets for short, or a folder under /private/common."""
    sort: Sort = Sort.NAME
    cursor: Annotated[str, Field(max_length=MAX_CURSOR)] | None = None
    """next_cursor of the previous page."""
    limit: Annotated[int, Field(ge=1, le=MAX_ENTRIES)] = PAGE_ENTRIES


class FileQuery(Strict):
    path: Path


class NewFolder(Strict):
    path: Path


class Move(Strict):
    source: Path
    target: Path
    """The complete new path, not the folder that will contain it."""


class NewPassword(Strict):
    password: Password


class Keys(Strict):
    keys: Annotated[list[Annotated[str, Field(max_length=10_000)]], Field(max_length=100)]
    """All keys that may log in, in OpenSSH's public key format."""


class KeysAnswer(BaseModel):
    keys: list[str]
    tokens: dict[str, str]
    """Key → id of the token that set it and with which it ends; a key that is not here holds until it is removed."""


class EntryAnswer(BaseModel):
    name: str
    path: str
    """Whole, as tasks name it."""
    kind: Kind
    size_bytes: int
    modified_at: str
    etag: str


class FolderAnswer(BaseModel):
    path: str
    entries: list[EntryAnswer]
    total: int
    next_cursor: str | None


class PlaceAnswer(BaseModel):
    path: str


class RemovedAnswer(BaseModel):
    trashed_to: str | None
    """From where it can be moved back; null when it is gone for good."""


class OneTimePassword(BaseModel):
    password: str
    """Shown this once; whoever logs in with it must choose another."""


class SftpAnswer(BaseModel):
    host: str
    port: int
    username: str
    fingerprint: str
    """Of the host key, as OpenSSH shows it; empty while it is not known."""
    password_token_id: str | None
    """Of the token that set the password and with which it ends; null: it holds until it is replaced."""


class RetentionAnswer(BaseModel):
    jobs_trash_after_days: float
    jobs_purge_after_days: float
    """In the trash, after that."""


class DataAnswer(BaseModel):
    home: str
    folders: dict[str, str]
    """Their paths as tasks name them, by name."""
    common: str
    sftp: SftpAnswer | None
    """null: this installation has none."""
    quota_bytes: int
    """0: as much as there is."""
    used_bytes: int | None
    """null while it cannot be told."""
    quota_files: int
    """How many files and folders; 0: as many as there is room for."""
    used_files: int | None
    """Files and folders, those in the trash too; null while it cannot be told."""
    used_by_folder: dict[str, int]
    retention: RetentionAnswer


class MeAnswer(AccountAnswer):
    data: DataAnswer


class FolderView(BaseModel):
    """What the page of a folder is asked for."""

    sort: Sort = Sort.NAME
    cursor: Annotated[str, Field(max_length=MAX_CURSOR)] = ""
    note: Annotated[str, Field(max_length=20)] = ""
    """What was just done."""
    count: Annotated[int, Field(ge=0)] = 0
    at: Path = ""
    """Where what was removed is now."""
    was: Path = ""
    """Where it was."""


class MoveQuery(BaseModel):
    path: Path
    to: Path = ""


class NameForm(BaseModel):
    path: Path
    name: Annotated[str, Field(max_length=1000)]


class MoveForm(BaseModel):
    source: Path
    folder: Path
    name: Annotated[str, Field(max_length=1000)]


class RestoreForm(BaseModel):
    source: Path
    target: Path


class PathForm(BaseModel):
    path: Path


class PasswordForm(BaseModel):
    password: Password
    again: Password


class KeyForm(BaseModel):
    key: Annotated[str, Field(max_length=10_000)]


def entry_answer(entry: Entry, path: str, modified_at: str) -> EntryAnswer:
    return answer_of(EntryAnswer, entry, path=path, modified_at=modified_at)
