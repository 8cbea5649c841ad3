"""A stand-in for the vendor's Kneron PLUS (kp): devices that are said to be connected, and a model behind them.

Keeps what the documentation of PLUS 3 promises for scanning, connecting, loading, generic data inference and retrieving
float nodes. Its NEF is a zip: model.onnx, and node.json {"chip", "layout", "radix", "scale", "v2"} of its input. What
comes in as the NPU's integers is laid out and counted back value by value, as the vendor's own example lays it out, and
run by onnxruntime.
"""

from __future__ import annotations

from . import core, inference
from .values import (
    ApiKPException,
    ChannelOrdering,
    DeviceDescriptor,
    GenericDataInferenceDescriptor,
    GenericInputNodeData,
    ModelTargetChip,
    ModelTensorDataLayout,
)

__all__ = [
    "ApiKPException", "ChannelOrdering", "DeviceDescriptor", "GenericDataInferenceDescriptor", "GenericInputNodeData",
    "ModelTargetChip", "ModelTensorDataLayout", "core", "inference",
]
