"""The task of a model, recognized by its family or its outputs, and what measures it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import onnx

from app.conversion.toolchains.graph.signature import signature_of
from app.conversion.toolchains.host.output_saturation import saturating_outputs
from app.conversion.toolchains.host.task_metrics import BoxMeter, Outputs, TaskAgreement, TaskMeter, meter_of
from app.inference.decoders import ModelFamily, OutputSpec, family_of
from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.model_families import GraphSignature, family_table
from app.inference.prediction import Decoder
from app.inference.preprocessing import Size

OTHERS = frozenset({Decoder.CLASSIFIER, Decoder.SEGMENTATION, Decoder.TEXT_DETECTION, Decoder.TEXT_RECOGNITION})
"""Families whose answers are compared as wholes, not box by box."""
UNREADABLE = (InferenceFailed, ValueError, IndexError, KeyError, ArithmeticError)
ULTRALYTICS = {"detect": Decoder.YOLOV8, "pose": Decoder.YOLOV8_POSE, "segment": Decoder.YOLOV8_SEG}
"""What the metadata of an export say of outputs that look alike, by their task."""


def task_meter(model: onnx.ModelProto) -> TaskMeter | None:
    """Returns a meter for the task of this model; None if its outputs are of no known kind.

    Args:
        model: with fixed shapes, as in out.onnx.
    """
    return task_meters(model)()


def task_meters(model: onnx.ModelProto) -> Callable[[], TaskMeter | None]:
    """Returns what makes such meters; the task is recognized once for all of them."""
    make = _choose_meter(model)

    def cautious() -> TaskMeter | None:
        meter = make()
        return None if meter is None else _CautiousMeter(meter)

    return cautious


class _CautiousMeter:
    """Stops measuring after an error: unreadable answers cost the metric, but never the conversion."""

    def __init__(self, meter: TaskMeter) -> None:
        self._meter = meter
        self._is_lost = False

    def add(self, expected: Outputs, actual: Outputs) -> None:
        try:
            self._meter.add(expected, actual)
        except UNREADABLE:
            self._is_lost = True

    def agreement(self) -> TaskAgreement:
        agreement = self._meter.agreement()
        unread = replace(agreement, float_agreement=None, score_error=None, answered=None)
        return unread if self._is_lost else agreement


def _choose_meter(model: onnx.ModelProto) -> Callable[[], TaskMeter | None]:
    if len(model.graph.output) == 1 and "Softmax" in saturating_outputs(model).values():
        return partial(meter_of, "mask" if len(model.graph.output[0].type.tensor_type.shape.dim) == 4 else "top1")
    detector = detector_of(model)
    if detector is not None:
        return partial(BoxMeter, *detector)
    signature = signature_of(model)
    return partial(meter_of, "" if signature is None else _task_of(signature))


def detector_of(model: onnx.ModelProto) -> tuple[ModelFamily, Size] | None:
    """Returns the family that reads the outputs as boxes, and the size of the input; None if none does."""
    signature = signature_of(model)
    if signature is None or not signature.width or not signature.height:
        return None
    size = (signature.width, signature.height)
    ports = [
        OutputSpec(output.name, shape) for output, shape in zip(model.graph.output, signature.outputs, strict=True)
    ]
    for named in (ULTRALYTICS.get(signature.metadata.get("task", ""), Decoder.AUTO), Decoder.AUTO):
        with contextlib.suppress(ModelUnusable):
            family = family_of(named, ports, size)
            return None if family.name in OTHERS else (family, size)
    return None


def _task_of(signature: GraphSignature) -> str:
    family = family_table().family_of(signature)
    return family.task if family else ""
