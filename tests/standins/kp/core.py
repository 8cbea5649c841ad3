"""Devices and models. `connected` is the bus: tests put devices on it and take them off."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import onnxruntime

from .values import (
    ApiKPException,
    DeviceDescriptor,
    DeviceDescriptorList,
    DeviceGroup,
    ModelNefDescriptor,
    ModelTargetChip,
    ModelTensorDataLayout,
    QuantizationParameters,
    QuantizationParametersV1,
    QuantizedFixedPointDescriptor,
    Scale,
    SingleModelDescriptor,
    TensorDescriptor,
    TensorShapeInfo,
    TensorShapeInfoV1,
    TensorShapeInfoV2,
)

PRODUCT_IDS = {"KL520": 0x100, "KL720": 0x720, "KL730": 0x732}
connected: list[DeviceDescriptor] = []
groups: list[DeviceGroup] = []
"""Every group that was ever connected."""


class LoadedModel:
    def __init__(self, session: Any, node: dict[str, Any], descriptor: SingleModelDescriptor) -> None:
        self.session, self.node, self.descriptor = session, node, descriptor


def scan_devices() -> DeviceDescriptorList:
    return DeviceDescriptorList(list(connected))


def connect_devices(usb_port_ids: list[int]) -> DeviceGroup:
    devices = [device for device in connected if device.usb_port_id in usb_port_ids and device.is_connectable]
    if not devices:
        raise ApiKPException(10, "KP_ERROR_DEVICE_NOT_EXIST_10")
    group = DeviceGroup(devices)
    groups.append(group)
    return group


def disconnect_devices(device_group: DeviceGroup) -> None:
    device_group.is_connected = False


def set_timeout(device_group: DeviceGroup, milliseconds: int) -> None:
    assert device_group.is_connected
    assert milliseconds > 0


def load_model_from_file(device_group: DeviceGroup, file_path: str) -> ModelNefDescriptor:
    try:
        with zipfile.ZipFile(file_path) as archive:
            node, model = json.loads(archive.read("node.json")), archive.read("model.onnx")
    except (zipfile.BadZipFile, KeyError) as error:
        raise ApiKPException(21, "KP_ERROR_INVALID_MODEL_21") from error
    if device_group.devices[0].product_id != PRODUCT_IDS[node["chip"]]:
        raise ApiKPException(104, "KP_FW_LOAD_MODEL_FAILED_104")
    session = onnxruntime.InferenceSession(model)
    descriptor = SingleModelDescriptor(
        32769,
        [_tensor(index, description, node) for index, description in enumerate(session.get_inputs())],
        [_tensor(index, description, node) for index, description in enumerate(session.get_outputs())],
    )
    device_group.model = LoadedModel(session, node, descriptor)
    return ModelNefDescriptor(ModelTargetChip[f"KP_MODEL_TARGET_CHIP_{node['chip']}"], [descriptor])


def _tensor(index: int, description: Any, node: dict[str, Any]) -> TensorDescriptor:
    shape = list(description.shape)
    strides = [0] * len(shape)
    step = 1
    for axis in reversed(range(len(shape))):
        strides[axis] = step
        step *= shape[axis]
    info = (
        TensorShapeInfoV2(shape, strides, node.get("stride_npu", strides))
        if node.get("v2")
        else TensorShapeInfoV1(shape, shape)
    )
    radix = node["radix"] if isinstance(node["radix"], list) else [node["radix"]]
    return TensorDescriptor(
        index,
        description.name,
        ModelTensorDataLayout[f"KP_MODEL_TENSOR_DATA_LAYOUT_{node['layout']}"],
        TensorShapeInfo(info),
        QuantizationParameters(
            QuantizationParametersV1(
                1, [QuantizedFixedPointDescriptor(Scale(node["scale"]), one) for one in radix]
            )
        ),
    )
