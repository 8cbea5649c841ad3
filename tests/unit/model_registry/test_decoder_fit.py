"""Which decoders are refused for a model before it runs."""

from __future__ import annotations

from typing import Any

import pytest

from app.inference.decoders import FAMILIES
from app.inference.model_card import Format, ModelCard
from app.inference.prediction import Decoder
from app.model_registry.decoder_fit import OUTPUTS, unfit_decoder
from app.model_registry.model import Model


def model(*outputs: list[Any], side: Any = 416) -> Model:
    facts = {
        "inputs": [{"name": "x", "shape": [1, 3, side, side]}],
        "outputs": [{"name": f"y{at}", "shape": shape} for at, shape in enumerate(outputs)],
    }
    return Model("alice", ModelCard("m", Format.ONNX, "0" * 64, 1), "", facts=facts)


def test_every_decoder_of_the_product_says_what_it_needs() -> None:
    assert set(OUTPUTS) == {family.name for family in FAMILIES}


@pytest.mark.parametrize(
    ("named", "outputs", "choice"),
    [
        (Decoder.CLASSIFIER, [1, 3549, 85], "yolox"),
        (Decoder.YOLOX, [1, 1000], "auto, classifier,"),
        (Decoder.CLASSIFIER, [1, 1], "auto,"),
    ],
)
def test_a_decoder_that_does_not_fit_is_told_with_those_that_do(
    named: Decoder, outputs: list[int], choice: str
) -> None:
    reason = unfit_decoder(named, model(outputs), "m@2")
    assert all(part in reason for part in (repr(named.value), "'m@2'", str(outputs), OUTPUTS[named], "Choose auto"))
    assert choice in reason.partition("Choose ")[2]


@pytest.mark.parametrize(
    ("outputs", "usable", "choice"),
    [
        ([[1, 1000]], {Decoder.YOLOX}, "Choose another model."),
        ([[1, 3549, 85]], {Decoder.YOLOX, Decoder.YOLOV8}, "Choose auto, yolox, or another model."),
        ([[1, 300, 91], [1, 300, 4]], {Decoder.DETR}, "Choose detr, or another model."),
        ([[1, 1]], {Decoder.YOLOX}, "Choose auto, or another model."),
    ],
)
def test_only_decoders_that_may_be_chosen_are_named(
    outputs: list[list[int]], usable: set[Decoder], choice: str
) -> None:
    """auto is no choice if it takes one that may not be."""
    assert unfit_decoder(Decoder.NANODET, model(*outputs), "m", usable).endswith(choice)


@pytest.mark.parametrize(
    ("named", "given"),
    [
        (Decoder.AUTO, model([1, 1])),
        (Decoder.ENCLOSED, model([1, 10])),
        (Decoder("plates"), model([1, 10])),
        (Decoder.YOLOX, model()),
        (Decoder.YOLOX, model(["n", "c"])),
        (Decoder.YOLOX, model([])),
        (Decoder.NANODET, model([1, 2125, 112], side="side")),
        (Decoder.YOLOX, model(["n", 3549, 85])),
    ],
)
def test_what_fits_or_is_not_known_is_let_through(named: Decoder, given: Model) -> None:
    assert unfit_decoder(named, given, "m") == ""
