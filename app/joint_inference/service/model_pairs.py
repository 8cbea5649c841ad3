"""Can the answer of the big model stand for that of the small one? As far as is known before they run. Pure."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar

from app.inference.errors import ModelUnusable
from app.inference.prediction import Decoder
from app.joint_inference.errors import InvalidResource
from app.joint_inference.hard_examples.base import BadParameter
from app.joint_inference.model.resource import Role, Worker
from app.joint_inference.model.status import Condition, ConditionType, Reason
from app.joint_inference.worker_options import worker_options
from app.model_registry.decoder_fit import are_whole, input_size, output_ports, unfit_decoder
from app.model_registry.model import Model

ANSWERS = {
    Decoder.CLASSIFIER: "tells classes apart",
    Decoder.SEGMENTATION: "finds areas",
    Decoder.TEXT_DETECTION: "finds lines of text",
    Decoder.TEXT_RECOGNITION: "reads text",
}
"""What a model answers, by its decoder; all others find boxes."""
BY_NAME = frozenset({Decoder.TEXT_DETECTION, Decoder.TEXT_RECOGNITION})
"""Recognized by the names of their outputs, so that open sides leave no doubt."""


class ModelsUnfit(InvalidResource):
    """A service cannot run with the models that its names have now; later versions of them may do."""

    reason: ClassVar[Reason]


class ModelsDiffer(ModelsUnfit):
    """Its two models are for different tasks."""

    reason = Reason.MODELS_DIFFER


class DecoderUnfit(ModelsUnfit):
    """A worker names a decoder that cannot read the outputs of its model."""

    reason = Reason.BAD_PARAMETERS


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
    """Returns why the workers cannot run these models as a pair; None if nothing speaks against it.

    Raises:
        BadParameter: a parameter of a worker is wrong.
    """
    try:
        _require_fit(edge, cloud)
    except ModelsUnfit as error:
        return Condition(ConditionType.FAILED, error.reason, error.message)
    return None


def refuse_mismatch(edge: tuple[Worker, Model | None], cloud: tuple[Worker, Model | None]) -> None:
    """Refuses a service before it is stored, as far as its models are registered. Parameters that are wrong are left to
    the controller, whose condition names them.

    Raises:
        DecoderUnfit: a decoder cannot read its model.
        ModelsDiffer: the models are for different tasks.
    """
    with suppress(BadParameter):
        _require_fit(edge, cloud)


def _require_fit(edge: tuple[Worker, Model | None], cloud: tuple[Worker, Model | None]) -> None:
    for worker, model in (edge, cloud):
        message = _find_unfit_decoder(worker, model)
        if message:
            path = f"$.spec.{worker.role}Worker.workerSpec.parameters"
            raise DecoderUnfit(message, detail={"problems": [{"path": path, "message": message}]})
    small, big = (_output_of(*pair) for pair in (edge, cloud))
    if small is None or big is None or not _differ(small, big):
        return
    message = (
        f"The edge model {edge[0].model!r} {small.description}, and the cloud model {cloud[0].model!r} "
        f"{big.description}: the answer of the one cannot stand for that of the other. Name two models for the same "
        "task, or say by the parameter `decoder` how a model is to be read."
    )
    problem = {"path": "$.spec.cloudWorker.model.name", "message": message}
    raise ModelsDiffer(message, detail={"problems": [problem]})


def _find_unfit_decoder(worker: Worker, model: Model | None) -> str:
    """Returns why the decoder that the worker names cannot read its model; empty if it can, or that is not known."""
    if model is None or not worker.is_builtin:
        return ""
    return unfit_decoder(_read_decoder(worker), model, worker.model)


def _read_decoder(worker: Worker) -> Decoder:
    return worker_options(Role(worker.role), worker.parameters).predictor.decoder


def _differ(small: ModelOutput, big: ModelOutput) -> bool:
    are_known = small.classes is not None and big.classes is not None
    return small.answer != big.answer or (are_known and small.classes != big.classes)


def _output_of(worker: Worker, model: Model | None) -> ModelOutput | None:
    """None if it is not known: a user's own script may do anything."""
    if model is None or not worker.is_builtin:
        return None
    named = _read_decoder(worker)
    named = named if named is not Decoder.AUTO else model.card.decoder
    from app.inference.decoders import family_of  # numpy comes with it: not before it is needed

    ports = output_ports(model)
    is_whole = are_whole(ports)
    classes = ports[0].shape[1] if is_whole and len(ports) == 1 and len(ports[0].shape) > 1 else None
    if named is not Decoder.AUTO:
        return _output(named, classes)
    try:
        family = family_of(Decoder.AUTO, ports, input_size(model))
    except ModelUnusable:
        return None  # its worker says so, with what it found
    return _output(family.name, classes) if is_whole or family.name in BY_NAME else None
