"""Values, enumerations and the exception of the stand-in."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any


class ApiKPException(Exception):
    def __init__(self, code: int, name: str) -> None:
        super().__init__(f"Error code: {code}, {name}")
        self.api_return_code = code


class ChannelOrdering(IntEnum):
    KP_CHANNEL_ORDERING_HCW = 0
    KP_CHANNEL_ORDERING_CHW = 1
    KP_CHANNEL_ORDERING_HWC = 2
    KP_CHANNEL_ORDERING_DEFAULT = 3


class ModelTargetChip(IntEnum):
    KP_MODEL_TARGET_CHIP_KL520 = 1
    KP_MODEL_TARGET_CHIP_KL720 = 2
    KP_MODEL_TARGET_CHIP_KL730 = 4


class ModelTensorDataLayout(IntEnum):
    KP_MODEL_TENSOR_DATA_LAYOUT_4W4C8B = 1
    KP_MODEL_TENSOR_DATA_LAYOUT_1W16C8B = 2
    KP_MODEL_TENSOR_DATA_LAYOUT_16W1C8B = 3
    KP_MODEL_TENSOR_DATA_LAYOUT_8W1C16B = 4
    KP_MODEL_TENSOR_DATA_LAYOUT_1W16C8BHL = 6
    KP_MODEL_TENSOR_DATA_LAYOUT_RAW_8B = 8
    KP_MODEL_TENSOR_DATA_LAYOUT_RAW_FLOAT = 10


@dataclass
class DeviceDescriptor:
    usb_port_id: int
    product_id: int
    is_connectable: bool = True
    firmware: str = "KDP2 Comp/F"


@dataclass
class DeviceDescriptorList:
    device_descriptor_list: list[DeviceDescriptor]

    @property
    def device_descriptor_number(self) -> int:
        return len(self.device_descriptor_list)


@dataclass
class DeviceGroup:
    devices: list[DeviceDescriptor]
    is_connected: bool = True
    model: Any = None
    results: list[Any] = field(default_factory=list)


@dataclass
class TensorShapeInfoV1:
    shape_npu: list[int]
    shape_onnx: list[int]


@dataclass
class TensorShapeInfoV2:
    shape: list[int]
    stride_onnx: list[int]
    stride_npu: list[int]


@dataclass
class TensorShapeInfo:
    data: TensorShapeInfoV1 | TensorShapeInfoV2


@dataclass
class Scale:
    value: float


@dataclass
class QuantizedFixedPointDescriptor:
    scale: Scale
    radix: int


@dataclass
class QuantizationParametersV1:
    quantized_axis: int
    quantized_fixed_point_descriptor_list: list[QuantizedFixedPointDescriptor]


@dataclass
class QuantizationParameters:
    v1: QuantizationParametersV1


@dataclass
class TensorDescriptor:
    index: int
    name: str
    data_layout: ModelTensorDataLayout
    tensor_shape_info: TensorShapeInfo
    quantization_parameters: QuantizationParameters


@dataclass
class SingleModelDescriptor:
    id: int
    input_nodes: list[TensorDescriptor]
    output_nodes: list[TensorDescriptor]


@dataclass
class ModelNefDescriptor:
    target_chip: ModelTargetChip
    models: list[SingleModelDescriptor]


@dataclass
class GenericInputNodeData:
    buffer: bytes = b""


@dataclass
class GenericDataInferenceDescriptor:
    inference_number: int = 0
    model_id: int = 0
    input_node_data_list: list[GenericInputNodeData] = field(default_factory=list)


@dataclass
class Header:
    inference_number: int
    num_output_node: int


@dataclass
class GenericDataInferenceResult:
    header: Header
    outputs: list[Any]


@dataclass
class InferenceFloatNodeOutput:
    name: str
    ndarray: Any
    channels_ordering: ChannelOrdering
