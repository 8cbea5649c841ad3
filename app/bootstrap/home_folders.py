"""Files that a capability writes into its users' data homes, within their quotas."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from app.accounts.service.users import Users
from app.homes import names as file_names
from app.homes.errors import FileMissing, HomeMissing, NameTaken
from app.homes.model import check_may_enter
from app.homes.service import Homes
from app.kit.errors import TooLarge

MOST_BYTES = 64 << 20
"""Maximum size of a file that is read completely."""


class HomeFolders:
    """Paths are relative to the home of their owner."""

    def __init__(self, homes: Homes, users: Users) -> None:
        self._homes = homes
        self._users = users

    def check(self, folder: str) -> None:
        """Checks that files may be written there.

        Raises:
            PathRefused: Users may make no files there.
        """
        names = file_names.from_text(folder, field="address")
        check_may_enter([*names, "a"], field="address")
        for name in names:
            file_names.check_new_name(name, field="address")

    def read(self, owner: str, path: str) -> bytes:
        """Returns the content of a file; empty: it does not exist. The errors are those of HomeFiles, and TooLarge,
        because its owner may have put another file there."""
        try:
            content = b"".join(self._homes.files.read(owner, path, end=MOST_BYTES + 1))
        except (FileMissing, HomeMissing):
            return b""
        if len(content) > MOST_BYTES:
            raise TooLarge(f"{path} has more than {MOST_BYTES} bytes.", hint="Move it away.")
        return content

    def list_files(self, owner: str, folder: str) -> list[str]:
        """Returns the paths of the files below a folder; none: it does not exist. The errors are those of HomeFiles."""
        try:
            return [entry.path for entry in self._homes.files.home(owner).iterate_files(folder)]
        except (FileMissing, HomeMissing):
            return []

    @contextmanager
    def locked(self, owner: str) -> Iterator[None]:
        """Only one of those who lock a home at the same time goes on, on this host. Raises the errors of HomeFiles."""
        self._homes.files.create(owner)
        with self._homes.files.opened(owner) as home, home.folder(".") as home_fd:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(home_fd, fcntl.LOCK_EX)
            yield

    def write(self, owner: str, path: str, content: bytes) -> None:
        """Replaces the file, completely or not at all. The errors are those of HomeFiles, and UserNotFound."""
        account, files = self._users.get(owner), self._homes.files
        quota = self._homes.options.quota(account.quota_bytes, account.quota_files)
        try:
            files.write(owner, path, [content], replace=True, expected_bytes=len(content), quota=quota)
        except (FileMissing, HomeMissing):
            files.create(owner)
            names = path.split("/")
            for depth in range(2, len(names)):
                with suppress(NameTaken):
                    files.make_folder(owner, "/".join(names[:depth]), quota=quota)
            files.write(owner, path, [content], replace=True, expected_bytes=len(content), quota=quota)
