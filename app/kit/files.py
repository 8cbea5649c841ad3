"""Files and folders of this machine: of the installation, private ones, and files that are written whole."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
PRIVATE, SHARED = 0o600, 0o666
"""File modes: readable only by the owner, or by whom the umask allows."""

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a full disk, or of a full quota of it."""


def data_folder(name: str) -> Path:
    """Returns the folder `name` ("templates", "static", "ops/samples/digits") of this installation: beside `app` in a
    checkout, inside it in an installed wheel.
    """
    packaged = PACKAGE / name
    return packaged if packaged.is_dir() else PACKAGE.parent / name


def sha256_of(path: Path) -> str:
    """Returns the SHA-256 of a file's content as 64 hex digits, in constant memory."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_private(folder: Path) -> Path:
    """Creates the folder and its missing parents, accessible only to the owner (mkdir's own mode applies only to the
    last).

    Existing folders keep their mode. Several processes may do this at once.
    """
    for missing in [path for path in (*reversed(folder.parents), folder) if not path.exists()]:
        missing.mkdir(mode=0o700, exist_ok=True)
    return folder


def write_whole(path: Path, content: str | bytes, *, mode: int = PRIVATE) -> None:
    """Writes a file atomically: a reader sees the old or the new content. It has this mode from the start.
    Its folder is created if missing.

    Args:
        path: the file; only one writer at a time.
        content: a text is written in UTF-8.
        mode: PRIVATE or SHARED.

    Raises:
        OSError: The file is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)
    fresh.replace(path)


def lasting_key(folder: Path) -> str:
    """The random key in the folder's file secret_key, which is made where there is none. Several may ask at once."""
    path = folder / "secret_key"
    with contextlib.suppress(FileNotFoundError):
        key = path.read_text().strip()
        if key:
            return key
    key = secrets.token_hex(32)
    draft = path.with_suffix(f".{os.getpid()}")
    write_whole(draft, key + "\n")
    draft.replace(path)
    return key
