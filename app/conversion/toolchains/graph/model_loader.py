"""Reads an uploaded file as an ONNX model, and identifies it if it is something else.

protobuf's parser only reports that parsing failed, so the outermost layer of a ModelProto is read here: whether it is
ONNX at all, and whether it is truncated. Field numbers: onnx.proto, message ModelProto.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # protobuf ships no types

from app.conversion.errors import GitLfsPointer, ModelTooLarge, NotOnnx, TruncatedModel
from app.conversion.toolchains.graph import external, walk
from app.conversion.toolchains.graph.local_functions import expanded_nodes
from app.inference.errors import InvalidModel

LFS_MARK = b"version https://git-lfs"
PROTOBUF_BYTES_MAX = (1 << 31) - 1
EXPORT_HINT = "Export the model to ONNX (for example torch.onnx.export) and send the .onnx file itself."
EXPANDED_NODES_MOST = 200_000
"""Of a graph whose functions are inlined. The largest models in use have some ten thousand."""
AGAIN_HINT = "Export or download it again and compare the file sizes."


def load(path: Path) -> onnx.ModelProto:
    """Load a model that is complete in one file; weights are never searched elsewhere.

    Raises:
        ExternalWeights: Weights are in other files.
        InvalidModel: It has no inputs or outputs, or its functions expand to too many nodes.
        BadInput: What parse raises.
    """
    model = parse(path)
    external.refuse(path.name, model)
    _refuse_empty(path.name, model)
    _refuse_expansion(path.name, model)
    return model


def parse(path: Path) -> onnx.ModelProto:
    """Parse the file alone; weights may be in other files.

    Raises:
        NotOnnx, GitLfsPointer, TruncatedModel: It is something else, or incomplete.
        InvalidModel: It has text that is not UTF-8.
        ModelTooLarge: protobuf ends at 2 GiB.
    """
    size = path.stat().st_size
    if size > PROTOBUF_BYTES_MAX:
        raise ModelTooLarge(f"{path.name} has {size} bytes; an ONNX file ends at 2 GiB", hint="Use a smaller model.")
    data = path.read_bytes()
    if data.startswith(LFS_MARK):
        raise GitLfsPointer(
            f"{path.name} is a git-lfs pointer ({size} bytes of text), not the model itself",
            hint="Run `git lfs pull` in the repository and send the file it fetches.",
        )
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except (DecodeError, RuntimeError):
        _refuse_bytes(path.name, data)
    _refuse_incomplete(path.name, data, model)
    _refuse_broken_text(path.name, model)
    return model


def _refuse_bytes(name: str, data: bytes) -> NoReturn:
    announced = scan(data)
    if announced.is_cut_short:
        raise TruncatedModel(
            f"{name} ends early: it has {len(data)} bytes, its content says at least {announced.needed_bytes}",
            hint=AGAIN_HINT,
            detail={"size_bytes": len(data), "needed_bytes": announced.needed_bytes},
        )
    if announced.is_onnx:
        raise InvalidModel(f"{name} begins as an ONNX model, but its content is damaged", hint=AGAIN_HINT)
    raise _not_onnx(name, data)


def _refuse_incomplete(name: str, data: bytes, model: onnx.ModelProto) -> None:
    """Refuses a file that was cut between two fields, which can be parsed all the same: graph and opset_import come
    late."""
    if not model.ir_version and not model.HasField("graph"):
        raise _not_onnx(name, data)
    if not model.HasField("graph") or (not model.opset_import and model.ir_version >= 3):
        missing = "opset_import" if model.HasField("graph") else "graph"
        raise TruncatedModel(
            f"{name} ends early: after {len(data)} bytes its {missing} is missing",
            hint=AGAIN_HINT,
            detail={"size_bytes": len(data), "missing": missing},
        )
    if not model.ir_version:
        raise InvalidModel(f"{name} names no IR version", hint=EXPORT_HINT)


def _not_onnx(name: str, data: bytes) -> NotOnnx:
    return NotOnnx(f"{name} is not an ONNX model: {_guess_format(data)}", hint=EXPORT_HINT)


_SIGNATURES = (
    (b"PK\x03\x04", "it is a zip file (PyTorch .pt and .pth files are such)"),
    (b"\x89HDF", "it is an HDF5 file (Keras .h5 files are such)"),
    (b"\x80", "it is a Python pickle"),
    (b"\xff\xd8\xff", "it is a JPEG picture"),
    (b"\x89PNG", "it is a PNG picture"),
    (b"\x93NUMPY", "it is a numpy array"),
    (b"\x1f\x8b", "it is a gzip file"),
    (b"\x7fELF", "it is a program"),
    (b"<", "it is HTML or XML text; perhaps a web page was saved instead of the file"),
    (b"{", "it is JSON text"),
)


def _guess_format(data: bytes) -> str:
    if not data:
        return "the file is empty"
    if data[4:8] == b"TFL3":
        return "it is a TensorFlow Lite model"
    if data[4:8] == b"ORTM":
        return "it is a model in ORT format"
    return next((text for mark, text in _SIGNATURES if data.startswith(mark)), "its bytes are no ONNX protobuf")


def _refuse_broken_text(name: str, model: onnx.ModelProto) -> None:
    """Refuses text that is not UTF-8, which protobuf returns as bytes and no reader of names expects."""
    for text in _iterate_texts(model):
        if not isinstance(text, str):
            raise InvalidModel(f"{name} is damaged: a name in it is not UTF-8 text ({text[:40]!r})", hint=AGAIN_HINT)


def _iterate_texts(model: onnx.ModelProto) -> Iterator[str]:
    yield from (model.producer_name, model.producer_version, model.domain, model.doc_string)
    for entry in model.opset_import:
        yield entry.domain
    for prop in model.metadata_props:
        yield from (prop.key, prop.value)
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output, *function.attribute)
    for graph in walk.graphs(model):
        yield from (graph.name, *(value.name for value in _iterate_values(graph)))
        for value in _iterate_values(graph):
            yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)
    for tensor in walk.tensors(model):
        yield tensor.name
        for item in tensor.external_data:
            yield from (item.key, item.value)
    for node in walk.nodes(model):
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)


def _iterate_values(graph: onnx.GraphProto) -> Iterable[onnx.ValueInfoProto]:
    return [*graph.input, *graph.output, *graph.value_info]


def _refuse_empty(name: str, model: onnx.ModelProto) -> None:
    if not model.graph.node:
        raise InvalidModel(f"the graph of {name} has no nodes", hint=EXPORT_HINT)
    if not model.graph.output:
        raise InvalidModel(f"the graph of {name} has no outputs", hint="Name the outputs when exporting.")


def _refuse_expansion(name: str, model: onnx.ModelProto) -> None:
    """Before any library expands the functions. A graph without functions may have any number of nodes."""
    if not model.functions:
        return
    count = expanded_nodes(model)
    if count is None:
        raise InvalidModel(f"a function of {name} calls itself", hint=EXPORT_HINT)
    if count > EXPANDED_NODES_MOST:
        shown = f"{count:,}" if count < 10**15 else f"more than {10**15:,}"
        raise InvalidModel(
            f"the functions of {name} expand to {shown} nodes; {EXPANDED_NODES_MOST:,} are allowed",
            hint="Export the model with fewer nested functions.",
        )


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
class WireScan:
    """The outermost fields of a file."""

    is_onnx: bool
    """True if the file starts with fields of a ModelProto."""
    needed_bytes: int
    """Least size of the file according to its last field."""
    size_bytes: int

    @property
    def is_cut_short(self) -> bool:
        return self.is_onnx and self.needed_bytes > self.size_bytes


def scan(data: bytes) -> WireScan:
    """Follow the fields from the start until the end of the data or the first thing that is not a ModelProto field."""
    at, seen_ir = 0, False
    while at < len(data):
        step = _read_field(data, at)
        if step is None:
            return WireScan(False, at, len(data)) if not seen_ir else WireScan(True, at, len(data))
        number, value, at = step
        seen_ir = seen_ir or (number == IR_VERSION and value in IR_PLAUSIBLE)
    return WireScan(seen_ir, at, len(data))


def _read_field(data: bytes, at: int) -> tuple[int, int, int] | None:
    """Returns (number, value or length, end) of the field at this position; None if no field of a ModelProto starts
    there."""
    tag, at = _read_varint(data, at)
    number, kind = tag >> 3, tag & 7
    if at < 0 or FIELDS.get(number) != kind:
        return None
    value, end = _read_varint(data, at)
    if end < 0:
        return None
    return number, value, end + value if kind == LENGTH_DELIMITED else end


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Returns (value, end). For a number that the end of the data cuts off, end is one byte after the data; for one
    that is too long, -1."""
    value = 0
    for shift in range(VARINT_BYTES_MAX):
        if at + shift >= len(data):
            return value, len(data) + 1
        byte = data[at + shift]
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, at + shift + 1
    return 0, -1
