"""The layout of a tensor's values in the buffer that a Kneron NPU reads, and their integer format.

Two descriptions exist. Newer models give a stride for each axis; older ones name a layout such as 4W4C8B: the number of
adjacent columns and channels, and of bits. KL520 keeps rows outermost, the other chips blocks of channels. A value is
stored as round(value * 2^radix * scale). Source: Kneron PLUS Python API 3.x, "Model Inference - Data Inference" of the
vendor's document center.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.errors import ModelUnusable

Array = npt.NDArray[Any]
Descriptor = Any
"""kp.TensorDescriptor; the package has no types."""

_BLOCKS = re.compile(r"(?P<width>\d+)W(?P<channels>\d+)C")
_PREFIX = "KP_MODEL_TENSOR_DATA_LAYOUT_"
KL520_WIDTH = 16
"""Width to which KL520 pads rows, whatever the layout's name says."""


@dataclass(frozen=True)
class TensorLayout:
    """The layout of a tensor in the device's memory."""

    shape: tuple[int, ...]
    offsets: npt.NDArray[np.intp]
    """Offset of each value of the tensor, counted in values."""
    length: int
    factor: npt.NDArray[np.float64]
    """Factor of each value."""
    layout: str
    """The vendor's name of the layout."""

    def pack(self, array: Array) -> bytes:
        if self.layout == "RAW_FLOAT":
            return self._lay_out(array.astype(np.float32) * self.factor.astype(np.float32)).tobytes()
        limits = np.iinfo(np.int8 if self.layout.endswith("8B") else np.int16)
        values = np.clip(np.rint(array * self.factor), limits.min, limits.max).astype(limits.dtype)
        if limits.bits == 8:
            return self._lay_out(values).tobytes()
        if not self.layout.endswith("HL"):
            return self._lay_out(values & np.int16(-2)).tobytes()
        return _split_halves(self._lay_out(values)).tobytes()

    def _lay_out(self, values: Array) -> Array:
        buffer = np.zeros(self.length, values.dtype)
        buffer[self.offsets] = values
        return buffer


def packing_of(node: Descriptor, chip: str) -> TensorLayout:
    """Returns the packing of an input.

    Args:
        chip: KL520, KL720 and so on.

    Raises:
        ModelUnusable: The layout is unknown.
    """
    layout = node.data_layout.name.removeprefix(_PREFIX)
    shape = shape_of(node)
    info = _find_shape_info(node)
    if hasattr(info, "stride_npu"):
        offsets = sum(
            index * stride for index, stride in zip(np.indices(shape, sparse=True), info.stride_npu, strict=True)
        )
        length = max(side * stride for side, stride in zip(shape, info.stride_npu, strict=True))
    else:
        offsets, length = _locate_blocks(layout, shape, chip)
    return TensorLayout(shape, np.asarray(offsets, dtype=np.intp), int(length), _read_factor(node, len(shape)), layout)


def shape_of(node: Descriptor) -> tuple[int, ...]:
    """Returns the shape of a tensor in the ONNX."""
    info = _find_shape_info(node)
    return tuple(int(side) for side in (info.shape if hasattr(info, "stride_npu") else info.shape_onnx))


def _find_shape_info(node: Descriptor) -> Any:
    """Returns the part of the descriptor with the shapes: PLUS 2 has them in the descriptor itself, PLUS 3 below it, in
    one of two versions."""
    return node.tensor_shape_info.data if hasattr(node, "tensor_shape_info") else node


def _read_factor(node: Descriptor, rank: int) -> npt.NDArray[np.float64]:
    """Returns one value, or one for each index along the quantized axis. PLUS 2 has them one level higher, and scale as
    a plain number."""
    parameters = node.quantization_parameters
    parameters = getattr(parameters, "v1", parameters)
    points = parameters.quantized_fixed_point_descriptor_list
    values = np.array([2.0**point.radix * float(getattr(point.scale, "value", point.scale)) for point in points])
    axis = parameters.quantized_axis if len(values) > 1 else 0
    return values.reshape([len(values) if place == axis else 1 for place in range(rank)])


def _locate_blocks(layout: str, shape: tuple[int, ...], chip: str) -> tuple[Array, int]:
    blocks = _BLOCKS.match(layout)
    if blocks is None or len(shape) != 4 or shape[0] != 1:
        raise ModelUnusable(
            f"the NPU wants its input of shape {list(shape)} in the layout {layout}, which is not known here",
            hint="Use the ONNX that the model was made of.",
        )
    depth = int(blocks["channels"])
    width = KL520_WIDTH if chip == "KL520" else int(blocks["width"])
    _, channels, rows, columns = shape
    _, c, y, x = np.indices(shape, sparse=True)
    wide, deep = -(-columns // width) * width, -(-channels // depth)
    outer = (y * deep + c // depth) if chip == "KL520" else (c // depth * rows + y)
    return (outer * wide + x) * depth + c % depth, deep * rows * wide * depth


def _split_halves(values: Array) -> Array:
    """Arranges 16 low bytes of seven bits, then 16 high bytes, and so on."""
    raw = values.view(np.uint16) >> 1
    padded = np.concatenate([raw, np.zeros(-len(raw) % 16, np.uint16)]).reshape(-1, 16)
    return np.stack([padded & 0x7F, padded >> 7 & 0xFF], axis=1).astype(np.uint8)
