"""FlatBuffers bytes of files that anybody may send: no offset and no length leads out of them."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import pytest

from app.conversion.toolchains.kneron.flatbuffer import VECTOR_LIMIT, BeyondEnd, Malformed, Table

ONE_FIELD = (6, 8, 4)
"""The vtable of a table with one field: its own size, that of the table, and where in it the field is."""


def written(vtable: Sequence[int] = ONE_FIELD, *numbers: int, back: int | None = None) -> memoryview:
    """A root table that follows its vtable. back: the distance to it, if it is said wrongly."""
    size = 2 * len(vtable)
    layout = f"<I{len(vtable)}Hi{len(numbers)}I"
    return memoryview(struct.pack(layout, 4 + size, *vtable, size if back is None else back, *numbers))


def test_what_lies_within_is_read() -> None:
    assert Table.root(written(ONE_FIELD, 7)).number(0, "I") == 7
    assert Table.root(written(ONE_FIELD, 7)).number(1, "I", 3) == 3
    assert Table.root(written(ONE_FIELD, 4, 2, 0x6261)).text(0) == "ab"
    assert Table.root(written(ONE_FIELD, 4, 0)).tables(0) == []


@pytest.mark.parametrize(
    ("buffer", "reading", "error", "message"),
    [
        (memoryview(b""), Table.root, BeyondEnd, "offset 0 lies outside 0 bytes"),
        (memoryview(struct.pack("<I", 100)), Table.root, BeyondEnd, "offset 100 lies outside"),
        (written(ONE_FIELD, 7, back=100), Table.root, BeyondEnd, "offset -90 lies outside"),
        (written((2, 8, 4), 7), Table.root, Malformed, "vtable of 2 bytes"),
        (written((7, 8, 4), 7), Table.root, Malformed, "vtable of 7 bytes"),
        (written((1000, 8, 4), 7), Table.root, Malformed, "vtable of 1000 bytes"),
        (written((6, 2, 4), 7), Table.root, BeyondEnd, "table of 2 bytes"),
        (written((6, 1000, 4), 7), Table.root, BeyondEnd, "table of 1000 bytes"),
        (written(ONE_FIELD, 1 << 31), lambda buffer: Table.root(buffer).table(0), BeyondEnd, "lies outside"),
        (written(ONE_FIELD, 4, 9, 0), lambda buffer: Table.root(buffer).octets(0), BeyondEnd, "vector of 9 bytes"),
        (written(ONE_FIELD, 4, 1, 1 << 31), lambda buffer: Table.root(buffer).tables(0), BeyondEnd, "lies outside"),
        (
            written(ONE_FIELD, 4, VECTOR_LIMIT + 1),
            lambda buffer: Table.root(buffer).tables(0),
            Malformed,
            "vector of 4097 tables",
        ),
    ],
)
def test_what_leads_out_of_the_file_is_refused(
    buffer: memoryview, reading: Callable[[memoryview], object], error: type[Malformed], message: str
) -> None:
    with pytest.raises(error, match=message):
        reading(buffer)
