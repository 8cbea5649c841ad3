"""Which nodes compute features whose logarithm a network reads."""

from __future__ import annotations

from typing import Any

from onnx import helper

from app.conversion.toolchains.host.logarithm_features import logarithm_features
from tests.harness.models.host import model_of, random_weights

SHAPE = [1, 3, 8, 8]
WEIGHTED = ("Conv",)


def features_of(*nodes: tuple[str, list[str], str]) -> set[str]:
    weights: dict[str, Any] = {"w": random_weights(3, 3, 1, 1), "one": random_weights(1)}
    made = [helper.make_node(operator, inputs, [output], output) for operator, inputs, output in nodes]
    return logarithm_features(model_of(made, {"x": SHAPE}, {nodes[-1][2]: SHAPE}, weights), WEIGHTED)


def test_what_leads_to_a_logarithm_that_a_layer_reads_is_a_feature() -> None:
    power = [("Conv", ["x", "w"], "filters"), ("Mul", ["filters", "filters"], "power"), ("Log", ["power"], "log")]
    assert features_of(*power, ("Conv", ["log", "w"], "layer")) == {"filters", "power", "log"}


def test_a_logarithm_at_the_end_leaves_the_layers_as_they_are() -> None:
    assert (
        features_of(("Conv", ["x", "w"], "layer"), ("Sigmoid", ["layer"], "share"), ("Log", ["share"], "log")) == set()
    )


def test_a_softplus_between_layers_is_no_feature() -> None:
    softplus = [("Exp", ["first"], "exp"), ("Add", ["exp", "one"], "sum"), ("Log", ["sum"], "log")]
    assert features_of(("Conv", ["x", "w"], "first"), *softplus, ("Conv", ["log", "w"], "second")) == set()
