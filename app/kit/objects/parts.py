"""An object that comes in parts, over any length of time and any number of processes: each part is an object by itself,
named by the offset at which it begins.

What is there follows from the parts alone: the chain that begins at 0. Two senders of the same bytes (one of them cut
off and not noticed yet) may overlap; the chain is right whoever wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from app.kit.objects.base import ObjectInfo, ObjectStore

PART_BYTES = 8 << 20
"""At most this much is lost when a process is killed; S3 joins parts of 5 MiB and more by itself."""
DIGITS = 16


@dataclass(frozen=True)
class Chain:
    """Keys of parts that follow each other without a gap, and their size in bytes."""

    keys: tuple[str, ...]
    size_bytes: int


class Parts:
    """prefix: what the keys of the parts begin with, ending in "/"."""

    def __init__(self, objects: ObjectStore, prefix: str) -> None:
        self.objects = objects
        self.prefix = prefix

    def chain(self) -> Chain:
        sizes = {info.key: info.size_bytes for info in self.objects.list(self.prefix)}
        keys: list[str] = []
        offset = 0
        while size := sizes.get(self._key(offset), 0):
            keys.append(self._key(offset))
            offset += size
        return Chain(tuple(keys), offset)

    def append(self, offset: int, chunks: Iterator[bytes]) -> int:
        """Store what comes, from this offset on, and return where it ends, in bytes.

        Should `chunks` raise, what came before is stored, and the error passes through.
        """
        stream = _Stream(chunks)
        while not stream.is_over:
            offset += self.objects.put(self._key(offset), stream.part(PART_BYTES)).size_bytes
        if not stream.last_part_bytes:
            self.objects.delete(self._key(offset))  # an empty one would be a part of nothing
        if stream.error is not None:
            raise stream.error
        return offset

    def drop(self, offset: int) -> None:
        """Delete the parts that begin at this offset or behind it."""
        for info in list(self.objects.list(self.prefix)):
            if info.key >= self._key(offset):
                self.objects.delete(info.key)

    def join(self, target: str, size_bytes: int) -> ObjectInfo | None:
        """Make one object of the parts, and delete them; None if they are not as many bytes any more."""
        chain = self.chain()
        if chain.size_bytes != size_bytes:
            return None
        joined = self.objects.join(chain.keys, target)
        if joined.size_bytes != size_bytes:
            self.objects.delete(target)
            return None
        self.objects.delete_prefix(self.prefix)
        return joined

    def _key(self, offset: int) -> str:
        return f"{self.prefix}{offset:0{DIGITS}d}"


class _Stream:
    """Chunks cut into parts. error: what ended them before their end."""

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
            piece, self._rest = (
                chunk[: most_bytes - self.last_part_bytes],
                chunk[most_bytes - self.last_part_bytes :],
            )
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
