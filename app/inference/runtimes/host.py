"""onnxruntime: plain ONNX, the host toolchain's BIE (ONNX with int8 inside), and its NEF."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.prediction import ENCLOSED_DECODER
from app.inference.predictor_options import ExecutionProvider
from app.inference.runtimes.base import Array, Tensor
from app.inference.runtimes.providers import open_by
from app.inference.runtimes.sessions import HostModel, numeric_outputs, run
from app.kit.errors import ModelmillError

MOST_LENGTH = 1 << 20
"""Characters of a value that is read."""
MOST_CLASSES = 100_000
SPACE = " "
_DTYPES = {
    "tensor(float)": "float32",
    "tensor(float16)": "float16",
    "tensor(double)": "float64",
    "tensor(uint8)": "uint8",
    "tensor(int8)": "int8",
    "tensor(uint16)": "uint16",
    "tensor(int16)": "int16",
    "tensor(int32)": "int32",
    "tensor(int64)": "int64",
}

Runner = Callable[[Mapping[str, Array]], dict[str, Array]]


@dataclass
class HostRuntime:
    """Implements runtimes.base. Threads may share sessions of onnxruntime."""

    description: str
    why: str
    input: Tensor
    outputs: tuple[Tensor, ...]
    _run: Runner | None
    preprocess: Mapping[str, Any] = field(default_factory=dict)
    provider: ExecutionProvider = ExecutionProvider.CPU
    """The one that really runs it."""
    labels: tuple[str, ...] = ()
    decoder_source: str = ""

    def run(self, array: Array) -> dict[str, Array]:
        runner = self._run
        if runner is None:
            raise InferenceFailed("the model is closed")
        try:
            return runner({self.input.name: array})
        except ModelmillError as error:
            raise InferenceFailed(error.message, hint=error.hint, detail=error.detail) from error

    def close(self) -> None:
        self._run = None


def open_onnx(
    path: Path, threads: int, *, form: str, why: str = "", provider: ExecutionProvider = ExecutionProvider.CPU
) -> HostRuntime:
    """Open a file that onnxruntime runs.

    Args:
        form: onnx, bie or nef, as shown to readers.
        why: why this runs instead of the model itself; empty if it is the model.
        provider: the chosen one.

    Raises:
        ModelUnusable: onnxruntime does not open it, or it has more than one input.
    """
    try:
        opened = open_by(path, threads, provider)
    except ModelmillError as error:
        raise _make_unusable(error) from error
    session = opened.session
    inputs = [
        Tensor(node.name, _read_shape(node.shape), _DTYPES.get(node.type, node.type)) for node in session.get_inputs()
    ]
    numeric, metadata = set(numeric_outputs(session)), session.get_modelmeta().custom_metadata_map
    outputs = tuple(
        Tensor(node.name, _read_shape(node.shape)) for node in session.get_outputs() if node.name in numeric
    )
    return HostRuntime(
        f"{_read_version(opened.provider)} · {form}",
        "; ".join(filter(None, (why, opened.why))),
        only_input([tensor for tensor in inputs if tensor.name not in (ORIGINAL_SIZES, MASK)]),
        outputs,
        lambda arrays: run(session, {**arrays, **size_inputs(inputs, arrays)}),
        provider=opened.provider,
        labels=read_stored_labels(metadata),
        decoder_source=metadata.get(ENCLOSED_DECODER, ""),
    )


ORIGINAL_SIZES = "orig_target_sizes"
"""The second input of RT-DETR's and D-FINE's usual export: width and height in whose pixels the boxes are given."""
MASK = "pixel_mask"
"""The second input of DETR's export by optimum: 1 where the picture lies."""


def size_inputs(inputs: Sequence[Tensor], arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Returns the values of the inputs beside the picture that tell its size: boxes are in pixels of the whole input,
    and the picture fills it; empty for most models.

    Args:
        arrays: the picture's input, in NCHW.
    """
    (pictures,) = arrays.values()
    count, height, width = (pictures.shape[axis] for axis in (0, -2, -1))
    values: dict[str, Array] = {}
    for tensor in inputs:
        if tensor.name == ORIGINAL_SIZES:
            values[tensor.name] = np.tile(np.array([width, height], tensor.dtype), (count, 1))
        elif tensor.name == MASK:
            usual = zip(tensor.shape, (count, height, width), strict=True)
            values[tensor.name] = np.ones([side or own for side, own in usual], tensor.dtype)
    return values


def open_host_nef(path: Path, threads: int, *, why: str = "") -> HostRuntime:
    """Opens a NEF of the host toolchain.

    Args:
        why: why it does not run as chosen; empty if it does.

    Raises:
        ModelUnusable: The file is something else, or damaged.
    """
    try:
        model = HostModel(path, threads)
    except ModelmillError as error:
        raise _make_unusable(error) from error
    inputs, outputs = (
        [Tensor(spec["name"], _read_shape(spec["shape"]), spec["dtype"]) for spec in specs]
        for specs in (model.inputs, model.outputs)
    )
    return HostRuntime(
        f"{_read_version(ExecutionProvider.CPU)} · host NEF",
        why,
        only_input(inputs),
        tuple(outputs),
        model.run,
        preprocess=model.preprocess,
    )


def only_input(inputs: Sequence[Tensor]) -> Tensor:
    """Returns the only input.

    Raises:
        ModelUnusable: There are several, or it is not numeric.
    """
    if len(inputs) != 1 or inputs[0].dtype.startswith("tensor("):
        names = ", ".join(tensor.description for tensor in inputs) or "none"
        raise ModelUnusable(f"the model has to have one input of numbers, for the picture; it has: {names}")
    return inputs[0]


def _read_shape(shape: Sequence[Any]) -> tuple[int | None, ...]:
    return tuple(side if isinstance(side, int) and side > 0 else None for side in shape)


def _make_unusable(error: ModelmillError) -> ModelUnusable:
    return ModelUnusable(
        f"the model cannot be opened: {error.message}",
        hint=error.hint or "Fetch the file again, or convert it anew.",
        detail=error.detail,
    )


def _read_version(provider: ExecutionProvider) -> str:
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__} on {provider.display_name}"


def read_stored_labels(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """Returns the names of classes that exporters store in an ONNX file (Ultralytics as `names`, PaddleOCR as
    `character`) by index; empty if there are none, or if they cannot be read.

    Args:
        metadata: of the file, which may be hostile.
    """
    characters = metadata.get("character", "")
    if characters and len(characters) <= MOST_LENGTH:
        return (*characters.splitlines(), SPACE)
    return _read_names(metadata.get("names", ""))


def _read_names(text: str) -> tuple[str, ...]:
    """Reads a dict {0: "person", …} or a list of names, as Python prints it."""
    if not text or len(text) > MOST_LENGTH:
        return ()
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RuntimeError):  # of text that is too deep, too
        return ()
    names = value if isinstance(value, dict) else dict(enumerate(value)) if isinstance(value, list | tuple) else {}
    is_whole = set(names) == set(range(len(names))) and len(names) <= MOST_CLASSES
    return tuple(str(names[number]) for number in range(len(names))) if is_whole else ()
