"""The outermost layer of a serialized ModelProto, read by hand: is it ONNX at all, and does it end early?

protobuf's parser only says that parsing failed. Field numbers: onnx.proto, message ModelProto.
"""

from __future__ import annotations

from dataclasses import dataclass

VARINT, LENGTH_DELIMITED = 0, 2
FIELDS = {
    1: VARINT,  # ir_version
    2: LENGTH_DELIMITED,  # producer_name
    3: LENGTH_DELIMITED,  # producer_version
    4: LENGTH_DELIMITED,  # domain
    5: VARINT,  # model_version
    6: LENGTH_DELIMITED,  # doc_string
    7: LENGTH_DELIMITED,  # graph
    8: LENGTH_DELIMITED,  # opset_import
    14: LENGTH_DELIMITED,  # metadata_props
    20: LENGTH_DELIMITED,  # training_info
    25: LENGTH_DELIMITED,  # functions
    26: LENGTH_DELIMITED,  # configuration
}
IR_VERSION, IR_PLAUSIBLE = 1, range(1, 100)
VARINT_BYTES_MAX = 10


@dataclass(frozen=True)
class Scan:
    """is_onnx: begins with fields of a ModelProto. needed_bytes: size that the last field announces (at least)."""

    is_onnx: bool
    needed_bytes: int
    size_bytes: int

    @property
    def is_cut_short(self) -> bool:
        return self.is_onnx and self.needed_bytes > self.size_bytes


def scan(data: bytes) -> Scan:
    """Follow the fields from the start until the end of the data or the first thing that is no ModelProto field."""
    at, seen_ir = 0, False
    while at < len(data):
        step = _field(data, at)
        if step is None:
            return Scan(False, at, len(data)) if not seen_ir else Scan(True, at, len(data))
        number, value, at = step
        seen_ir = seen_ir or (number == IR_VERSION and value in IR_PLAUSIBLE)
    return Scan(seen_ir, at, len(data))


def _field(data: bytes, at: int) -> tuple[int, int, int] | None:
    """(number, value or length, end) of the field at this place. None for what is no field of a ModelProto."""
    tag, at = _varint(data, at)
    number, kind = tag >> 3, tag & 7
    if at < 0 or FIELDS.get(number) != kind:
        return None
    value, end = _varint(data, at)
    if end < 0:
        return None
    return number, value, end + value if kind == LENGTH_DELIMITED else end


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, end). A number that the data cuts off ends one byte behind the data; one too long gives end -1."""
    value = 0
    for shift in range(VARINT_BYTES_MAX):
        if at + shift >= len(data):
            return value, len(data) + 1
        byte = data[at + shift]
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, at + shift + 1
    return 0, -1
