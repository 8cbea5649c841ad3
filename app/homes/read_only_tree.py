"""Reading below one folder, whosever it is: browse, look at, read. Changes nothing, and knows no users."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from app.homes import names as naming
from app.homes.errors import FileMissing, disk_errors
from app.homes.listing import Sort, entry, page_of
from app.homes.model import Entry, Page
from app.homes.rooted_directory import RootedDirectory
from app.kit.objects import CHUNK_BYTES
from app.kit.objects.base import ByteStream, check_range, clamp_range

PAGE_ENTRIES = 200


class ReadOnlyTree:
    """opened: the folder, for operations beneath it. hidden: names at its top that do not exist for who reads here."""

    def __init__(
        self, opened: Callable[[], AbstractContextManager[RootedDirectory]], hidden: frozenset[str] = frozenset()
    ) -> None:
        self._opened = opened
        self._hidden = hidden

    def browse(
        self, path: str = "", *, sort: Sort = Sort.NAME, cursor: str | None = None, limit: int = PAGE_ENTRIES
    ) -> Page:
        """A part of a folder. cursor: next_cursor of the page before. Raises FileMissing, NotAFolder."""
        place = self._place(path)
        hidden = frozenset() if place else self._hidden
        with self._opened() as base, disk_errors(shown(path)), base.folder("/".join(place)) as folder_fd:
            return page_of(folder_fd, place, cursor=cursor, limit=limit, sort=sort, hidden=hidden)

    def info(self, path: str) -> Entry:
        """Of what is there; for a link, of what it leads to inside the folder. Raises FileMissing."""
        place = self._place(path)
        with self._opened() as base, disk_errors(shown(path)):
            return entry(place, base.stat("/".join(place)))

    def read(
        self, path: str, *, start: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        """The bytes start <= i < end; what lies beyond the file is left out. Raises at once: FileMissing, NotAFile."""
        place = self._place(path)
        check_range(start, end)
        with self._opened() as base, disk_errors(shown(path)):
            fd = base.open_file("/".join(place))
        position, stop = clamp_range(os.fstat(fd).st_size, start, end)
        left_bytes = stop - position

        def read_some(size_bytes: int) -> bytes:
            nonlocal position
            with disk_errors(path):
                data = os.pread(fd, size_bytes, position)
            position += len(data)
            return data

        return ByteStream(read_some, lambda: os.close(fd), left_bytes, chunk_bytes)

    def _place(self, path: str) -> list[str]:
        place = naming.from_text(path)
        if place and place[0] in self._hidden:
            raise FileMissing(f"There is no {path} here.")
        return place


def shown(path: str) -> str:
    return path or "the folder"
