"""The object store contract: the operations of every store and their errors.

Owns the protocol, its value types, its errors and the rules for keys. It depends on no concrete store.
Stores are synchronous and safe to share between threads; asynchronous callers use a thread.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from app.kit.errors import BadInput, Conflict, ModelmillError, NotFound, Unavailable

CHUNK_BYTES = 1 << 20
DEFAULT_CONTENT_TYPE = "application/octet-stream"
MAX_KEY_BYTES = 512
MAX_SEGMENT_BYTES = 250  # a file system allows 255 characters per name, and a store may add a suffix
MAX_PRESIGN_S = 7 * 24 * 3600  # the limit of S3


class ObjectMissing(NotFound, code="OBJECT_NOT_FOUND"): ...


class BadKey(BadInput, code="BAD_KEY"): ...


class ObjectChanged(Conflict, code="OBJECT_CHANGED"):
    """The file changed while it was being stored: nothing was stored."""


class StoreUnavailable(Unavailable, code="STORE_UNAVAILABLE"): ...


class StoreFull(Unavailable, status=507, code="STORE_FULL"): ...


class StoreRefused(ModelmillError, status=500, code="STORE_REFUSED"):
    """The store answers but refuses the request: wrong credentials, missing permissions, a manipulated folder."""


@dataclass(frozen=True)
class ObjectInfo:
    """Metadata of one object. `etag` changes with the content; `modified_at` is aware UTC."""

    key: str
    size_bytes: int
    etag: str
    modified_at: datetime
    content_type: str


@dataclass(frozen=True)
class Stored:
    """The result of a put; `sha256` is the hex digest of the stored bytes."""

    key: str
    size_bytes: int
    sha256: str


class ObjectStore(Protocol):
    """Immutable blobs under string keys. Every method may raise BadKey, StoreUnavailable or StoreRefused."""

    def put(
        self,
        key: str,
        chunks: Iterable[bytes],
        *,
        content_type: str = DEFAULT_CONTENT_TYPE,
        max_bytes: int | None = None,
    ) -> Stored:
        """Stores a stream in constant memory, replacing an existing object. Atomic: a reader sees the old object or the
        new one, never a part. Exceptions of `chunks` propagate, and nothing is stored.

        Args:
            max_bytes: None: no limit.

        Raises:
            TooLarge: Beyond `max_bytes`.
            StoreFull: There is no space.
        """
        ...

    def put_file(self, key: str, path: Path, *, content_type: str = DEFAULT_CONTENT_TYPE) -> Stored:
        """Stores a copy of a file; the file may change or vanish afterwards.

        Raises:
            StoreFull: There is no room for it.
            ObjectChanged: The file changed while it was copied.
        """
        ...

    def get_file(self, key: str, path: Path) -> ObjectInfo:
        """Downloads to `path`, which appears completely or not at all. What becomes of the file changes no object.

        Raises:
            ObjectMissing: There is no object of this key.
            StoreFull: There is no room at `path`.
        """
        ...

    def read(
        self, key: str, *, start: int = 0, end: int | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> Iterator[bytes]:
        """Streams the bytes start <= i < end, without those beyond the object. Errors are raised at once, not at the
        first chunk.

        Args:
            end: None: to the end of the object.
            chunk_bytes: the maximum size of a chunk.

        Raises:
            ObjectMissing: There is no object of this key.
            ValueError: start or end is negative.
        """
        ...

    def info(self, key: str) -> ObjectInfo:
        """Returns what the store knows of an object without reading it.

        Raises:
            ObjectMissing: There is none with this key.
        """
        ...

    def copy(self, source: str, target: str) -> ObjectInfo:
        """Copies inside the store, without moving the bytes through this process; returns the target.

        Raises:
            ObjectMissing: There is no source.
            StoreFull: There is no room for the target.
        """
        ...

    def join(self, sources: Sequence[str], target: str) -> ObjectInfo:
        """Concatenates objects in this order, inside the store as far as possible, and returns the result; they stay.

        Raises:
            ValueError: There are no sources.
            ObjectMissing: One of the sources does not exist.
            StoreFull: There is no room for the target.
        """
        ...

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """Objects whose key starts with this string ("" for all), sorted by key.

        A store whose listing has no content types returns the default one here.
        """
        ...

    def delete(self, key: str) -> None:
        """Deletes an object; it need not exist."""
        ...

    def delete_prefix(self, prefix: str) -> int:
        """Deletes what `list(prefix)` names; returns the number. An empty prefix is refused with BadKey."""
        ...

    def presign_get(self, key: str, *, expires_s: int, download_name: str | None = None) -> str:
        """Returns a URL with which anybody can GET the object for `expires_s` seconds (1 s to 7 days), saved as
        `download_name`.

        The existence of the object is not checked.
        """
        ...

    def presign_put(self, key: str, *, expires_s: int) -> str:
        """Returns a URL with which anybody can PUT the object for `expires_s` seconds (1 s to 7 days)."""
        ...

    def check(self) -> None:
        """A cheap health check; raises StoreUnavailable, StoreFull or StoreRefused."""
        ...


class ByteStream(Iterator[bytes]):
    """The pieces of an object.

    Args:
        read_some: returns at most this many bytes; empty at the end.
        close: closes the source; called at the end, on an error and when the iterator is discarded.
        size_bytes: the total size.
        chunk_bytes: the maximum size of a piece.
    """

    def __init__(
        self, read_some: Callable[[int], bytes], close: Callable[[], None], size_bytes: int, chunk_bytes: int
    ) -> None:
        self._read_some = read_some
        self._close: Callable[[], None] | None = close
        self._left = size_bytes
        self._chunk_bytes = chunk_bytes

    def __next__(self) -> bytes:
        if self._left <= 0 or self._close is None:
            self.close()
            raise StopIteration
        try:
            chunk = self._read_some(min(self._left, self._chunk_bytes))
        except BaseException:
            self.close()
            raise
        if not chunk:
            self.close()
            raise StoreUnavailable("The object ended before its time.", hint="Try again.")
        self._left -= len(chunk)
        return chunk

    def close(self) -> None:
        """Releases the source; later calls do nothing."""
        close, self._close = self._close, None
        if close is not None:
            close()

    def __del__(self) -> None:
        self.close()


def check_key(key: str) -> str:
    """Returns the key if every store can hold it, otherwise raises BadKey."""
    if not key:
        raise BadKey("An object key must not be empty.")
    _check_text(key)
    for segment in key.split("/"):
        _check_segment(key, segment)
    return key


def check_prefix(prefix: str) -> str:
    """Returns the prefix if a valid key can start with it, otherwise raises BadKey. It may be empty or end in '/'."""
    _check_text(prefix)
    *folders, last = prefix.split("/")
    for segment in folders:
        _check_segment(prefix, segment)
    if last in (".", ".."):
        raise BadKey(f"The prefix {prefix!r} has a segment '{last}'.")
    return prefix


def check_content_type(content_type: str) -> str:
    """Returns a content type that is valid in an HTTP header, otherwise raises BadInput."""
    if not (content_type.isascii() and content_type.isprintable() and 3 <= len(content_type) <= 255):
        raise BadInput("A content type is 3 to 255 printable ASCII characters.")
    return content_type


def check_range(start: int, end: int | None) -> None:
    """Checks the positions of a byte range.

    Raises:
        ValueError: One of them is negative.
    """
    if start < 0 or (end is not None and end < 0):
        raise ValueError("a byte range is never negative")


def clamp_range(size_bytes: int, start: int, end: int | None) -> tuple[int, int]:
    """Returns the part of start <= i < end inside an object of this size.

    Raises:
        ValueError: A position is negative.
    """
    check_range(start, end)
    stop = size_bytes if end is None else min(end, size_bytes)
    return min(start, stop), stop


def check_expiry(expires_s: int) -> int:
    """Returns a lifetime in seconds that S3 accepts, otherwise raises ValueError."""
    if not 1 <= expires_s <= MAX_PRESIGN_S:
        raise ValueError(f"a presigned URL lives 1 to {MAX_PRESIGN_S} seconds, not {expires_s}")
    return expires_s


def _check_text(text: str) -> None:
    try:
        size_bytes = len(text.encode())
    except UnicodeEncodeError:
        raise BadKey(f"The object key {text!r} is no valid Unicode.") from None
    if size_bytes > MAX_KEY_BYTES:
        raise BadKey(f"An object key has at most {MAX_KEY_BYTES} bytes, not {size_bytes}.")
    if "\\" in text or any(unicodedata.category(c) == "Cc" for c in text):
        raise BadKey(f"The object key {text!r} has a backslash or a control character.")


def _check_segment(key: str, segment: str) -> None:
    if not segment.strip():
        raise BadKey(f"The object key {key!r} has an empty segment: it must be a relative path.")
    if segment in (".", ".."):
        raise BadKey(f"The object key {key!r} has a segment '{segment}'.")
    if len(segment.encode()) > MAX_SEGMENT_BYTES:
        raise BadKey(f"A segment of an object key has at most {MAX_SEGMENT_BYTES} bytes.")
