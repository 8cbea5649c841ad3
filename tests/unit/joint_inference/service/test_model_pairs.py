"""Which pairs of models are refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from app.inference.model_card import Format, ModelCard
from app.inference.prediction import Decoder
from app.joint_inference.model.resource import Role, Worker
from app.joint_inference.model.status import Condition, Reason
from app.joint_inference.service.model_pairs import DecoderUnfit, mismatch, refuse_mismatch
from app.model_registry.model import Model

ULTRAFACE = [[1, 4420, 2], [1, 4420, 4]]
YOLOX = [[1, 3549, 85]]
DIGITS = [[1, 10]]


def model(outputs: list[list[Any]], *, size: int = 416, decoder: Decoder = Decoder.AUTO, name: str = "y") -> Model:
    facts = {
        "inputs": [{"name": "x", "shape": [1, 3, size, size], "dtype": "float32"}],
        "outputs": [{"name": f"{name}{at}", "shape": shape, "dtype": "float32"} for at, shape in enumerate(outputs)],
    }
    return Model("alice", ModelCard("m", Format.ONNX, "0" * 64, 1, decoder=decoder), "", facts=facts)


def found(edge: Model | None, cloud: Model | None, *, script: str = "", **parameters: str) -> Condition | None:
    workers = [
        Worker(role, f"the-{role}", name, "n", script_dir=script, parameters=parameters if role is Role.EDGE else {})
        for role, name in ((Role.EDGE, "small"), (Role.CLOUD, "big"))
    ]
    return mismatch((workers[0], edge), (workers[1], cloud))


@pytest.mark.parametrize(
    ("edge", "cloud", "messages"),
    [
        (model(YOLOX), model(DIGITS), ("'small' finds boxes", "'big' tells 10 classes")),
        (model(DIGITS), model(ULTRAFACE), ("'small' tells 10 classes", "'big' finds boxes")),
        (model([[1, 3]]), model(DIGITS), ("3 classes", "10 classes")),
        (model([["n", "c"]], decoder=Decoder.CLASSIFIER), model(YOLOX), ("tells classes", "finds boxes")),
        (model(YOLOX), model([["n", "t", 97]], decoder=Decoder.TEXT_RECOGNITION), ("finds boxes", "reads text")),
        (model([["n", "t", 97]], name="softmax_11.tmp_"), model(YOLOX), ("reads text", "finds boxes")),
        (
            model([["n", 1, "h", "w"]], decoder=Decoder.TEXT_DETECTION),
            model([[1, 21, 416, 416]], decoder=Decoder.SEGMENTATION),
            ("finds lines of text", "finds areas"),
        ),
    ],
)
def test_models_that_do_not_do_the_same_are_told(edge: Model, cloud: Model, messages: tuple[str, ...]) -> None:
    condition = found(edge, cloud)
    assert condition is not None and condition.reason == Reason.MODELS_DIFFER
    assert all(words in condition.message for words in messages)


@pytest.mark.parametrize(
    ("edge", "cloud"),
    [
        (model(YOLOX), model(ULTRAFACE)),
        (model(DIGITS), model(DIGITS)),
        (model(DIGITS), model([[1, "classes"]])),
        (model(DIGITS), None),
        (model(DIGITS), model([])),
        (model(DIGITS), model([[1, 2, 3, 4, 5]])),
    ],
)
def test_what_fits_or_is_not_known_is_let_through(edge: Model, cloud: Model | None) -> None:
    assert found(edge, cloud) is None


def test_a_users_own_script_and_a_named_decoder_decide() -> None:
    assert found(model(YOLOX), model(DIGITS), script="/code") is None
    assert found(model(YOLOX), model(DIGITS), decoder="classifier") is not None, "3549 of them"
    assert found(model(DIGITS), model(YOLOX), script="/code", decoder="yolox") is None


def test_a_named_decoder_that_cannot_read_the_model_is_told_with_what_fits() -> None:
    condition = found(model(DIGITS), model(YOLOX), decoder="yolox")
    assert condition is not None and condition.reason == Reason.BAD_PARAMETERS
    assert condition.message == (
        "The decoder 'yolox' cannot read the model 'small': its outputs are y0 [1, 10], and the decoder needs "
        "[1, N, 5 + C]. Choose auto, classifier, or another model."
    )


@pytest.mark.parametrize("role", [Role.EDGE, Role.CLOUD])
def test_an_unfit_decoder_of_either_worker_is_refused_at_its_parameters(role: Role) -> None:
    pairs = {
        each: (Worker(each, f"the-{each}", "m", "n", parameters={"decoder": "yolox"} if each is role else {}), digits)
        for each, digits in ((Role.EDGE, model(DIGITS)), (Role.CLOUD, model(DIGITS)))
    }
    with pytest.raises(DecoderUnfit) as raised:
        refuse_mismatch(pairs[Role.EDGE], pairs[Role.CLOUD])
    assert raised.value.detail["problems"][0]["path"] == f"$.spec.{role}Worker.workerSpec.parameters"
