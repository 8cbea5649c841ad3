"""A NEF of the vendor's toolchain on a Kneron NPU, by the vendor's Python package kp (Kneron PLUS 2 and 3).

kp comes from the vendor, not from an index, and is imported when such a model is opened. The picture is prepared here
and sent as the NPU's own integers ("generic data inference"), so that any preprocessing is possible; the chip supports
only a few. The device needs its firmware already, as for every program that uses it.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from app.inference.errors import InferenceFailed
from app.inference.predictor_options import ExecutionProvider
from app.inference.runtimes.base import Array, Tensor
from app.inference.runtimes.host import only_input
from app.inference.runtimes.npu_layout import packing_of, shape_of
from app.kit.text.plain_text import reason_of

TIMEOUT_MS = 5000
BY_NPU_ORDER = frozenset({"KL520", "KL630", "KL720"})
"""Chips whose default order of axes differs from ONNX's."""


class NoNpu(Exception):
    """The model cannot run on an NPU here; the text says why, for readers."""


class NpuRuntime:
    """Implements runtimes.base. One picture at a time, since a device answers in the order of its requests.

    Args:
        kp: Kneron's module.
        group: of devices, connected.
        model: as the device has loaded it.
        chip: name, as in `KL720`.
    """

    why = ""
    preprocess: Mapping[str, Any] = {}
    labels: tuple[str, ...] = ()
    decoder_source = ""
    provider = ExecutionProvider.CPU

    def __init__(self, kp: Any, group: Any, model: Any, chip: str) -> None:
        """Prepares the model's input.

        Raises:
            ModelUnusable: The model has several inputs, or an unknown layout.
        """
        self._kp, self._group, self._model = kp, group, model
        self._lock = threading.Lock()
        self.description = f"Kneron NPU {chip}"
        self.input = only_input([Tensor(node.name, shape_of(node)) for node in model.input_nodes])
        self.outputs = tuple(Tensor(node.name, shape_of(node)) for node in model.output_nodes)
        self._packing = packing_of(model.input_nodes[0], chip)
        orders = kp.ChannelOrdering
        self._order = orders.KP_CHANNEL_ORDERING_CHW if chip in BY_NPU_ORDER else orders.KP_CHANNEL_ORDERING_DEFAULT

    def run(self, array: Array) -> dict[str, Array]:
        data = self._kp.GenericInputNodeData(buffer=self._packing.pack(array))
        request = self._kp.GenericDataInferenceDescriptor(
            model_id=self._model.id, inference_number=0, input_node_data_list=[data]
        )
        with self._lock:
            if self._group is None:
                raise InferenceFailed("the model is closed")
            try:
                return self._infer(request)
            except self._kp.ApiKPException as error:
                raise InferenceFailed(
                    f"the NPU did not run the model: {reason_of(error)}", hint="Check that the device is connected."
                ) from error

    def _infer(self, request: Any) -> dict[str, Array]:
        inference = self._kp.inference
        inference.generic_data_inference_send(device_group=self._group, generic_inference_input_descriptor=request)
        raw = inference.generic_data_inference_receive(device_group=self._group)
        nodes = [
            inference.generic_inference_retrieve_float_node(
                node_idx=index, generic_raw_result=raw, channels_ordering=self._order
            )
            for index in range(raw.header.num_output_node)
        ]
        return {
            output.name: np.asarray(node.ndarray, dtype=np.float32).reshape([side or -1 for side in output.shape])
            for output, node in zip(self.outputs, nodes, strict=True)
        }

    def close(self) -> None:
        with self._lock:
            group, self._group = self._group, None
            if group is not None:
                self._kp.core.disconnect_devices(device_group=group)


def open_npu(path: Path) -> NpuRuntime:
    """Opens the model on the first device that accepts it.

    Raises:
        NoNpu: There is none; the text has the reason.
    """
    try:
        kp = importlib.import_module("kp")
    except (ImportError, OSError) as error:
        raise NoNpu("no Kneron runtime (kp) on this node") from error
    reasons = []
    for port in _iterate_ports(kp):
        try:
            return _open(kp, port, path)
        except kp.ApiKPException as error:
            reasons.append(reason_of(error))
    raise NoNpu(f"the Kneron device does not take it: {'; '.join(reasons)}" if reasons else _NOT_CONNECTED)


_NOT_CONNECTED = "no Kneron device is connected to this node"


def _iterate_ports(kp: Any) -> Iterator[int]:
    for device in kp.core.scan_devices().device_descriptor_list:
        if device.is_connectable:
            yield device.usb_port_id


def _open(kp: Any, port: int, path: Path) -> NpuRuntime:
    group = kp.core.connect_devices(usb_port_ids=[port])
    is_taken = False
    try:
        kp.core.set_timeout(device_group=group, milliseconds=TIMEOUT_MS)
        nef = kp.core.load_model_from_file(device_group=group, file_path=str(path))
        runtime = NpuRuntime(kp, group, nef.models[0], nef.target_chip.name.rpartition("_")[2])
        is_taken = True
        return runtime
    finally:
        if not is_taken:
            kp.core.disconnect_devices(device_group=group)
