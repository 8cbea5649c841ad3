"""Read-only access below any folder: list it page by page, inspect entries, read a file. It does not depend on
users."""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from enum import StrEnum
from typing import NamedTuple

from app.homes import names as file_names
from app.homes.errors import FileMissing, disk_errors, make_refusal
from app.homes.model import Entry, Kind, Page
from app.homes.rooted_directory import Name, RootedDirectory, kind_of, names_in
from app.kit.objects import CHUNK_BYTES
from app.kit.objects.base import ByteStream, check_range, clamp_range

PAGE_ENTRIES = 200
MAX_LEVELS = 20
"""Of the subfolders that are searched for files."""
_CURSOR = re.compile(r"([df])(?:=(-?[0-9]{1,20}))?:(.+)", re.DOTALL)


class Sort(StrEnum):
    """Order of the entries of a folder; folders always come first. A minus reverses the order."""

    NAME = "name"
    NAME_BACK = "-name"
    SIZE = "size"
    SIZE_BACK = "-size"
    MODIFIED = "modified"
    MODIFIED_BACK = "-modified"

    @property
    def is_back(self) -> bool:
        return self.startswith("-")


class ListingPosition(NamedTuple):
    """Where an entry stands in the listing."""

    name: str
    is_folder: bool
    value: int = 0
    """Its size or time, where the listing is sorted by that."""

    def sort_key(self) -> tuple[int, str, str]:
        """Among folders, or among files."""
        return self.value, self.name.casefold(), self.name

    def is_before(self, other: ListingPosition, sort: Sort) -> bool:
        if self.is_folder is not other.is_folder:
            return self.is_folder
        return other.sort_key() < self.sort_key() if sort.is_back else self.sort_key() < other.sort_key()


class ReadOnlyTree:
    """
    Args:
        opened: opens the folder.
        hidden: names at its top that do not exist for its readers.
    """

    def __init__(
        self, opened: Callable[[], AbstractContextManager[RootedDirectory]], hidden: frozenset[str] = frozenset()
    ) -> None:
        self._opened = opened
        self._hidden = hidden

    def browse(
        self, path: str = "", *, sort: Sort = Sort.NAME, cursor: str | None = None, limit: int = PAGE_ENTRIES
    ) -> Page:
        """A part of a folder.

        Args:
            cursor: next_cursor of the previous page.

        Raises:
            FileMissing: Nothing is there.
            NotAFolder: It is something else.
        """
        segments = self._split_path(path)
        hidden = frozenset() if segments else self._hidden
        with self._opened() as base, disk_errors(to_shown_path(path)), base.folder("/".join(segments)) as folder_fd:
            return page_of(folder_fd, segments, cursor=cursor, limit=limit, sort=sort, hidden=hidden)

    def iterate_files(self, folder: str, *, levels: int = MAX_LEVELS) -> Iterator[Entry]:
        """Yields the files below a folder, in the order of the listing, without hidden ones. No link is followed,
        because it could lead to other users or in a circle.

        Args:
            levels: how deep its subfolders may lie.

        Raises:
            FileMissing, NotAFolder: As of `browse`.
        """
        cursor = None
        while True:
            page = self.browse(folder, cursor=cursor)
            for entry in page.entries:
                if entry.name.startswith("."):
                    continue
                if entry.kind is Kind.FOLDER and levels:
                    yield from self.iterate_files(entry.path, levels=levels - 1)
                elif entry.kind is Kind.FILE:
                    yield entry
            cursor = page.next_cursor
            if cursor is None:
                return

    def info(self, path: str) -> Entry:
        """Of what is there; for a link, of what it leads to inside the folder.

        Raises:
            FileMissing: Nothing is there.
        """
        segments = self._split_path(path)
        with self._opened() as base, disk_errors(to_shown_path(path)):
            return entry(segments, base.stat("/".join(segments)))

    def read(
        self, path: str, *, start: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        """Stream the bytes start <= i < end of a file; what lies beyond it is omitted. What is raised is raised at
        once, not at the first chunk.

        Args:
            end: None: to the end of the file.

        Raises:
            FileMissing, NotAFile: There is no file of this path.
            ValueError: start or end is negative.
        """
        segments = self._split_path(path)
        check_range(start, end)
        with self._opened() as base, disk_errors(to_shown_path(path)):
            fd = base.open_file("/".join(segments))
        position, stop = clamp_range(os.fstat(fd).st_size, start, end)
        left_bytes = stop - position

        def read_some(size_bytes: int) -> bytes:
            nonlocal position
            with disk_errors(path):
                data = os.pread(fd, size_bytes, position)
            position += len(data)
            return data

        return ByteStream(read_some, lambda: os.close(fd), left_bytes, chunk_bytes)

    def _split_path(self, path: str) -> list[str]:
        segments = file_names.from_text(path)
        if segments and segments[0] in self._hidden:
            raise FileMissing(f"There is no {path} here.")
        return segments


def to_shown_path(path: str) -> str:
    return path or "the folder"


def page_of(
    folder_fd: int,
    path: list[str],
    *,
    cursor: str | None,
    limit: int,
    sort: Sort = Sort.NAME,
    hidden: frozenset[str] = frozenset(),
) -> Page:
    """A page of a folder. By name, only what is on the page is looked at beyond its name; by anything else all of it
    is.

    Args:
        folder_fd: the open folder.
        path: its own, for the entries.
        cursor: from the page before; None: the first page.
        hidden: names to leave out.
    """
    positions = [
        position
        for name in names_in(folder_fd)
        if name.name not in hidden
        if (position := _read_position(name, folder_fd, sort))
    ]
    positions.sort(key=ListingPosition.sort_key, reverse=sort.is_back)
    positions.sort(key=lambda position: not position.is_folder)
    after = from_cursor(cursor) if cursor else None
    begin = bisect_left(positions, True, key=lambda position: after.is_before(position, sort)) if after else 0
    part, entries = positions[begin : begin + limit], []
    for position in part:
        with suppress(FileNotFoundError):  # removed since
            status = os.stat(position.name, dir_fd=folder_fd, follow_symlinks=False)
            entries.append(entry([*path, position.name], status))
    return Page(entries, len(positions), to_cursor(part[-1], sort) if len(positions) > begin + limit else None)


def entry(segments: list[str], status: os.stat_result) -> Entry:
    kind = kind_of(status.st_mode)
    return Entry(
        name=file_names.to_text(segments[-1]) if segments else "",
        path=file_names.path_to_text(segments),
        kind=kind,
        size_bytes=0 if kind is Kind.FOLDER else status.st_size,
        modified_at=datetime.fromtimestamp(status.st_mtime, UTC),
        etag=etag_of(status),
    )


def etag_of(status: os.stat_result) -> str:
    """Returns a tag that changes with the content."""
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def to_cursor(position: ListingPosition, sort: Sort) -> str:
    """Where a page ends, by what it is sorted by: so that pages survive what comes and goes."""
    by_name = sort in (Sort.NAME, Sort.NAME_BACK)
    value = "" if by_name else f"={position.value}"
    return f"{'d' if position.is_folder else 'f'}{value}:{file_names.to_text(position.name)}"


def from_cursor(cursor: str) -> ListingPosition:
    match = _CURSOR.fullmatch(cursor)
    names = file_names.from_text(match[3], field="cursor") if match else []
    if match is None or len(names) != 1:
        raise make_refusal("cursor", "it is not one that was given out", hint="Begin without one.")
    return ListingPosition(names[0], match[1] == "d", int(match[2] or 0))


def _read_position(name: Name, folder_fd: int, sort: Sort) -> ListingPosition | None:
    """None for what was removed since."""
    is_folder = name.kind is Kind.FOLDER
    if sort in (Sort.NAME, Sort.NAME_BACK) or (is_folder and sort in (Sort.SIZE, Sort.SIZE_BACK)):
        return ListingPosition(name.name, is_folder)
    try:
        status = os.stat(name.name, dir_fd=folder_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    is_by_size = sort in (Sort.SIZE, Sort.SIZE_BACK)
    return ListingPosition(name.name, is_folder, status.st_size if is_by_size else status.st_mtime_ns)
