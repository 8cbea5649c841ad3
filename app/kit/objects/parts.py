"""An object that arrives in parts, over any time and from any number of processes: each part is an object of its own,
named by its offset.

The content follows from the parts alone: the chain that starts at 0. Two senders of the same bytes (one of them
disconnected without notice) may overlap; the chain is correct whoever wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.kit.objects.base import ObjectInfo, ObjectStore

PART_BYTES = 8 << 20
"""At most this much is lost when a process is killed; S3 concatenates parts of 5 MiB and more by itself."""
DIGITS = 16


@dataclass(frozen=True)
class Chain:
    """The keys of consecutive parts without a gap, and their size in bytes."""

    keys: tuple[str, ...]
    size_bytes: int


class Parts:
    """
    Args:
        prefix: the common prefix of the parts' keys, ending in "/".
    """

    def __init__(self, objects: ObjectStore, prefix: str) -> None:
        self.objects = objects
        self.prefix = prefix

    def chain(self) -> Chain:
        sizes = {info.key: info.size_bytes for info in self.objects.list(self.prefix)}
        keys: list[str] = []
        offset = 0
        while size := sizes.get(self._build_key(offset), 0):
            keys.append(self._build_key(offset))
            offset += size
        return Chain(tuple(keys), offset)

    def append(self, offset: int, chunks: Iterator[bytes]) -> int:
        """Stores the chunks from this offset on, and returns the end, in bytes.

        If `chunks` raises, the previous chunks are stored, and the error propagates.
        """
        stream = _Stream(chunks)
        while not stream.is_over:
            offset += self.objects.put(self._build_key(offset), stream.part(PART_BYTES)).size_bytes
        if not stream.last_part_bytes:
            self.objects.delete(self._build_key(offset))  # an empty part would belong to nothing
        if stream.error is not None:
            raise stream.error
        return offset

    def drop(self, offset: int) -> None:
        """Deletes the parts that start at or after this offset."""
        for info in list(self.objects.list(self.prefix)):
            if info.key >= self._build_key(offset):
                self.objects.delete(info.key)

    def join(self, target: str, size_bytes: int) -> ObjectInfo | None:
        """Makes one object of the parts and deletes them; returns None if their size has changed."""
        chain = self.chain()
        if chain.size_bytes != size_bytes:
            return None
        joined = self.objects.join(chain.keys, target)
        if joined.size_bytes != size_bytes:
            self.objects.delete(target)
            return None
        self.objects.delete_prefix(self.prefix)
        return joined

    def _build_key(self, offset: int) -> str:
        return f"{self.prefix}{offset:0{DIGITS}d}"


class _Stream:
    """Chunks cut into parts. error: the exception that ended them early."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.error: BaseException | None = None
        self.is_over = False
        self.last_part_bytes = 0
        self._chunks = chunks
        self._rest = b""

    def part(self, most_bytes: int) -> Iterator[bytes]:
        self.last_part_bytes = 0
        while self.last_part_bytes < most_bytes:
            chunk = self._rest or self._next()
            if not chunk:
                return
            piece, self._rest = (chunk[: most_bytes - self.last_part_bytes], chunk[most_bytes - self.last_part_bytes :])
            self.last_part_bytes += len(piece)
            yield piece

    def _next(self) -> bytes:
        try:
            chunk = next(self._chunks, None)
            while chunk is not None and not chunk:
                chunk = next(self._chunks, None)
        except Exception as error:  # noqa: BLE001  # raised once what came before is stored
            self.error = error
            chunk = None
        self.is_over = chunk is None
        return chunk or b""
