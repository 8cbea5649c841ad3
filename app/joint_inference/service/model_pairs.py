"""Can the answer of the big model stand for that of the small one? As far as is known before they run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.inference.errors import ModelUnusable
from app.inference.prediction import Decoder
from app.joint_inference.errors import ModelsDiffer
from app.joint_inference.hard_examples.base import BadParameter
from app.joint_inference.model.resource import Role, Worker
from app.joint_inference.model.status import Condition, ConditionType, Reason
from app.joint_inference.worker_options import worker_options
from app.model_registry.model import Model

if TYPE_CHECKING:
    from app.inference.preprocessing import Shape, Size


ANSWERS = {
    Decoder.CLASSIFIER: "tells classes apart",
    Decoder.SEGMENTATION: "finds areas",
    Decoder.TEXT_DETECTION: "finds lines of text",
    Decoder.TEXT_RECOGNITION: "reads text",
}
"""What a model answers, by its decoder; all others find boxes."""
BY_NAME = frozenset({Decoder.TEXT_DETECTION, Decoder.TEXT_RECOGNITION})
"""Recognized by the names of their outputs, so that open sides leave no doubt."""


@dataclass(frozen=True)
class ModelOutput:
    """What a model answers."""

    answer: str
    classes: int | None = None
    """Of a classifier, None if that is not known."""

    @property
    def description(self) -> str:
        return self.answer.replace("classes", f"{self.classes} classes") if self.classes else self.answer


def _output(decoder: Decoder, classes: int | None) -> ModelOutput:
    answer = ANSWERS.get(decoder, "finds boxes")
    return ModelOutput(answer, classes if decoder is Decoder.CLASSIFIER else None)


def mismatch(edge: tuple[Worker, Model | None], cloud: tuple[Worker, Model | None]) -> Condition | None:
    """Raises BadParameter."""
    small, big = (_output_of(*pair) for pair in (edge, cloud))
    if small is None or big is None or not _differ(small, big):
        return None
    message = (
        f"The edge model {edge[0].model!r} {small.description}, and the cloud model {cloud[0].model!r} "
        f"{big.description}: the answer of the one cannot stand for that of the other. Name two models for the same "
        "task, or say by the parameter `decoder` how a model is to be read."
    )
    return Condition(ConditionType.FAILED, Reason.MODELS_DIFFER, message)


def refuse_mismatch(edge: tuple[Worker, Model | None], cloud: tuple[Worker, Model | None]) -> None:
    """Refuses a service before it is stored, as far as its models are registered. Parameters that are wrong are left to
    the controller, whose condition names them.

    Raises:
        ModelsDiffer: the models are for different tasks.
    """
    try:
        condition = mismatch(edge, cloud)
    except BadParameter:
        return
    if condition is not None:
        problem = {"path": "$.spec.cloudWorker.model.name", "message": condition.message}
        raise ModelsDiffer(condition.message, detail={"problems": [problem]})


def _differ(small: ModelOutput, big: ModelOutput) -> bool:
    are_known = small.classes is not None and big.classes is not None
    return small.answer != big.answer or (are_known and small.classes != big.classes)


def _output_of(worker: Worker, model: Model | None) -> ModelOutput | None:
    """None if it is not known: a user's own script may do anything."""
    if model is None or not worker.is_builtin:
        return None
    named = worker_options(Role(worker.role), worker.parameters).predictor.decoder
    named = named if named is not Decoder.AUTO else model.card.decoder
    from app.inference.decoders import OutputSpec, family_of  # numpy comes with it: not before it is needed

    ports = [OutputSpec(str(tensor["name"]), _get_shape(tensor)) for tensor in model.facts.get("outputs") or ()]
    are_whole = bool(ports) and all(None not in port.shape[1:] for port in ports)
    classes = ports[0].shape[1] if are_whole and len(ports) == 1 and len(ports[0].shape) > 1 else None
    if named is not Decoder.AUTO:
        return _output(named, classes)
    try:
        family = family_of(Decoder.AUTO, ports, _get_size(model))
    except ModelUnusable:
        return None  # its worker says so, with what it found
    return _output(family.name, classes) if are_whole or family.name in BY_NAME else None


def _get_size(model: Model) -> Size:
    """Zeros where the input leaves it open."""
    from app.inference.preprocessing import input_layout

    inputs = model.facts.get("inputs") or ()
    try:
        return input_layout(_get_shape(inputs[0]), (0, 0)).size if inputs else (0, 0)
    except ModelUnusable:
        return 0, 0


def _get_shape(tensor: Mapping[str, Any]) -> Shape:
    return tuple(side if isinstance(side, int) and side > 0 else None for side in tensor.get("shape") or ())
