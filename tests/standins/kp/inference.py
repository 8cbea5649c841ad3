"""Generic data inference: what is sent is counted back into the model's own numbers, and run."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from . import core
from .values import (
    ApiKPException,
    ChannelOrdering,
    DeviceGroup,
    GenericDataInferenceDescriptor,
    GenericDataInferenceResult,
    Header,
    InferenceFloatNodeOutput,
)

ALIGNED = {"4W4C8B": (4, 4), "1W16C8B": (1, 16), "16W1C8B": (16, 1), "8W1C16B": (8, 1), "1W16C8BHL": (1, 16)}


def generic_data_inference_send(
    device_group: DeviceGroup, generic_inference_input_descriptor: GenericDataInferenceDescriptor
) -> None:
    if not device_group.is_connected or device_group.devices[0] not in core.connected:
        raise ApiKPException(-4, "KP_ERROR_USB_NO_DEVICE_N4")
    model = device_group.model
    if model is None or generic_inference_input_descriptor.model_id != model.descriptor.id:
        raise ApiKPException(35, "KP_ERROR_MODEL_NOT_LOADED_35")
    (data,) = generic_inference_input_descriptor.input_node_data_list
    node = model.descriptor.input_nodes[0]
    array = _counted_back(data.buffer, node, model.node)
    outputs = model.session.run(None, {node.name: array})
    device_group.results.append((generic_inference_input_descriptor.inference_number, outputs))


def generic_data_inference_receive(device_group: DeviceGroup) -> GenericDataInferenceResult:
    if not device_group.results:
        raise ApiKPException(-7, "KP_ERROR_USB_TIMEOUT_N7")
    number, outputs = device_group.results.pop(0)
    return GenericDataInferenceResult(Header(number, len(outputs)), outputs)


def generic_inference_retrieve_float_node(
    node_idx: int, generic_raw_result: GenericDataInferenceResult, channels_ordering: ChannelOrdering
) -> InferenceFloatNodeOutput:
    return InferenceFloatNodeOutput("", generic_raw_result.outputs[node_idx], channels_ordering)


def _counted_back(buffer: bytes, node: Any, facts: dict[str, Any]) -> np.ndarray:
    layout, info = facts["layout"], node.tensor_shape_info.data
    shape = info.shape if facts.get("v2") else info.shape_onnx
    values = _values(buffer, layout)
    if facts.get("v2"):
        needed_bytes = max(side * step for side, step in zip(shape, info.stride_npu, strict=True))
    else:
        wide, deep = _aligned(layout, facts["chip"])
        needed_bytes = math.ceil(shape[1] / deep) * deep * shape[2] * math.ceil(shape[3] / wide) * wide
    if len(values) < needed_bytes or len(values) - needed_bytes >= 16:
        raise ApiKPException(14, "KP_ERROR_SEND_DATA_FAIL_14")
    array = np.zeros(shape, np.float32)
    for place in itertools.product(*map(range, shape)):
        array[place] = values[_offset(place, shape, info, layout, facts)]
    radix = np.array(facts["radix"], dtype=np.float64).reshape(1, -1, 1, 1)
    return (array / (2.0**radix * facts["scale"])).astype(np.float32)


def _values(buffer: bytes, layout: str) -> np.ndarray:
    if layout == "RAW_FLOAT":
        return np.frombuffer(buffer, np.float32)
    if layout.endswith("HL"):
        halves = np.frombuffer(buffer, np.uint8).reshape(-1, 2, 16).astype(np.uint16)
        return ((halves[:, 1] << 8 | halves[:, 0] << 1).reshape(-1)).astype(np.uint16).view(np.int16)
    return np.frombuffer(buffer, np.int16 if layout.endswith("16B") else np.int8)


def _aligned(layout: str, chip: str) -> tuple[int, int]:
    wide, deep = ALIGNED[layout]
    return (16 if chip == "KL520" else wide), deep


def _offset(place: tuple[int, ...], shape: list[int], info: Any, layout: str, facts: dict[str, Any]) -> int:
    if facts.get("v2"):
        return sum(index * step for index, step in zip(place, info.stride_npu, strict=True))
    wide, deep = _aligned(layout, facts["chip"])
    _, c, y, x = place
    columns, blocks = math.ceil(shape[3] / wide) * wide, math.ceil(shape[1] / deep)
    container = np.ravel_multi_index
    if facts["chip"] == "KL520":
        return int(container((y, c // deep, x, c % deep), (shape[2], blocks, columns, deep)))
    return int(container((c // deep, y, x, c % deep), (blocks, shape[2], columns, deep)))
