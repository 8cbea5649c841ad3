"""A reader of FlatBuffers bytes that trusts nothing: every offset and length is checked against the buffer.

Format: https://flatbuffers.dev/internals — a table starts with a signed offset back to its vtable; the vtable
lists, per field, the offset inside the table, 0 for a field left at its default. Little-endian throughout.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

Buffer = memoryview
STRING_LIMIT = 4096
VECTOR_LIMIT = 4096


class Malformed(Exception):
    """The bytes are not a FlatBuffer."""


class BeyondEnd(Malformed):
    """An offset or length points outside the buffer: it is something else, or cut off."""


def unpack(buffer: Buffer, layout: str, position: int) -> int:
    """Returns the little-endian number at `position`; layout is a `struct` letter (b B h H i I)."""
    size = struct.calcsize(layout)
    if position < 0 or position + size > len(buffer):
        raise BeyondEnd(f"offset {position} lies outside {len(buffer)} bytes")
    value: int = struct.unpack_from("<" + layout, buffer, position)[0]
    return value


@dataclass(frozen=True)
class Table:
    buffer: Buffer
    position: int
    vtable: int
    vtable_size: int

    @staticmethod
    def at(buffer: Buffer, position: int) -> Table:
        """Returns the table at `position`.

        Raises:
            Malformed: Its vtable is not inside the buffer.
        """
        vtable = position - unpack(buffer, "i", position)
        size = unpack(buffer, "H", vtable)
        table_size = unpack(buffer, "H", vtable + 2)
        if size < 4 or size % 2 or vtable + size > len(buffer):
            raise Malformed(f"vtable of {size} bytes at {vtable}")
        if table_size < 4 or position + table_size > len(buffer):
            raise BeyondEnd(f"table of {table_size} bytes at {position}")
        return Table(buffer, position, vtable, size)

    @staticmethod
    def root(buffer: Buffer) -> Table:
        return Table.at(buffer, unpack(buffer, "I", 0))

    def _find_slot(self, field: int) -> int | None:
        """Returns the absolute position of a field's value; None if the field is absent."""
        entry = 4 + 2 * field
        if entry + 2 > self.vtable_size:
            return None
        offset = unpack(self.buffer, "H", self.vtable + entry)
        return self.position + offset if offset else None

    def _find_target(self, field: int) -> int | None:
        slot = self._find_slot(field)
        return None if slot is None else slot + unpack(self.buffer, "I", slot)

    def number(self, field: int, layout: str, default: int = 0) -> int:
        slot = self._find_slot(field)
        return default if slot is None else unpack(self.buffer, layout, slot)

    def table(self, field: int) -> Table | None:
        target = self._find_target(field)
        return None if target is None else Table.at(self.buffer, target)

    def octets(self, field: int) -> Buffer | None:
        """Returns a vector of bytes, without a copy."""
        target = self._find_target(field)
        if target is None:
            return None
        length = unpack(self.buffer, "I", target)
        if target + 4 + length > len(self.buffer):
            raise BeyondEnd(f"vector of {length} bytes at {target}")
        return self.buffer[target + 4 : target + 4 + length]

    def text(self, field: int) -> str:
        data = self.octets(field)
        return "" if data is None else bytes(data[:STRING_LIMIT]).decode("utf-8", "replace").strip("\0 \r\n\t")

    def tables(self, field: int) -> list[Table]:
        """Returns a vector of tables, at most VECTOR_LIMIT."""
        target = self._find_target(field)
        if target is None:
            return []
        length = unpack(self.buffer, "I", target)
        if length > VECTOR_LIMIT:
            raise Malformed(f"vector of {length} tables at {target}")
        slots = range(target + 4, target + 4 + 4 * length, 4)
        return [Table.at(self.buffer, slot + unpack(self.buffer, "I", slot)) for slot in slots]
