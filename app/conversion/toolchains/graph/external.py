"""External weights: finds the files that contain them, and merges them into the model.

Exporters write model.onnx with model.onnx.data beside it. A location is text in the model, and never used as a path.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import NoReturn

import onnx

from app.conversion.errors import ExternalWeights, ModelTooLarge, TruncatedModel
from app.conversion.toolchains.graph import walk
from app.kit.text.json_values import JsonObject

HINT = (
    "Send these files too, in the field `weights` or in one zip with the model; or merge them into one file: "
    "onnx.save_model(onnx.load('model.onnx'), 'merged.onnx', save_as_external_data=False)."
)


def tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Returns the tensors whose numbers are in other files."""
    return [tensor for tensor in walk.tensors(model) if tensor.data_location == onnx.TensorProto.EXTERNAL]


def places(name: str, model: onnx.ModelProto) -> list[str]:
    """Returns the paths of the other files, relative to the model's folder.

    Raises:
        ExternalWeights: A path leads out of the folder.
    """
    paths = sorted({_place(tensor) for tensor in tensors(model)})
    for place in paths:
        _refuse_outside(name, place)
    return paths


def refuse(name: str, model: onnx.ModelProto) -> None:
    """Refuses a model without all of its weights.

    Raises:
        ExternalWeights: Some lie in other files.
    """
    if tensors(model):
        _refuse_missing(name, model, places(name, model))


def take_in(name: str, model: onnx.ModelProto, files: Mapping[str, Path], *, max_bytes: int) -> None:
    """Read the numbers of the other files into the model.

    Args:
        files: the file for each path that the model names.
        max_bytes: how many bytes may be read.

    Raises:
        ExternalWeights: A file is missing or outside of the folder.
        TruncatedModel: One ends too early.
        ModelTooLarge: The files are larger than allowed.
    """
    missing = [place for place in places(name, model) if place not in files]
    if missing:
        _refuse_missing(name, model, missing)
    left = max_bytes
    for tensor in tensors(model):
        data = _read(tensor, files[_place(tensor)], left)
        left -= len(data)
        tensor.raw_data = data
        tensor.ClearField("data_location")
        del tensor.external_data[:]


def _read(tensor: onnx.TensorProto, path: Path, max_bytes: int) -> bytes:
    offset, size = _read_number(tensor, "offset", 0), path.stat().st_size
    length = _read_number(tensor, "length", max(size - offset, 0))
    if length > max_bytes:
        raise ModelTooLarge("the model and its weights are larger than is accepted here", hint="Send a smaller model.")
    if offset + length > size:
        raise TruncatedModel(
            f"{_place(tensor)} ends early: it has {size} bytes, the weight {tensor.name!r} goes to {offset + length}",
            hint="Export both files again, or send the file that belongs to this model.",
            detail={"file": _place(tensor), "tensor": tensor.name, "size_bytes": size},
        )
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(length)


def _read_number(tensor: onnx.TensorProto, key: str, default: int) -> int:
    text = _read_reference(tensor).get(key)
    if text is None:
        return default
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise ExternalWeights(
            f"the weight {tensor.name!r} has {text[:40]!r} as its {key}, which is no number of bytes",
            hint="Export the model again.",
            detail={"tensor": tensor.name},
        )
    return int(text)


def _read_reference(tensor: onnx.TensorProto) -> dict[str, str]:
    return {item.key: item.value for item in tensor.external_data}


def _place(tensor: onnx.TensorProto) -> str:
    place = _read_reference(tensor).get("location", "")
    return place if _points_outside(place) else str(PurePosixPath(place))


def _refuse_outside(name: str, place: str) -> None:
    if _points_outside(place):
        raise ExternalWeights(
            f"{name} wants its weights from {place!r}, a path outside the model's own folder, which is never read",
            hint=HINT,
            detail={"outside": place},
        )


def _points_outside(place: str) -> bool:
    path = PurePosixPath(place.replace("\\", "/"))
    return path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", place) is not None


def _refuse_missing(name: str, model: onnx.ModelProto, files: list[str]) -> NoReturn:
    lacking = [tensor for tensor in tensors(model) if _place(tensor) in files]
    named = ", ".join(map(repr, files[:5])) + (f" and {len(files) - 5} more" if len(files) > 5 else "")
    detail: JsonObject = {"files": files[:100], "tensors": [t.name for t in lacking][:100], "count": len(lacking)}
    raise ExternalWeights(
        f"weights of {name} are missing ({len(lacking)}), which lie in {named}", hint=HINT, detail=detail
    )
