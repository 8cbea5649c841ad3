"""Channels are equalized through SiLU and HardSwish, and through a Concat."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from app.conversion.goals import parse_goal
from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.quantization_plan import plan
from app.conversion.toolchains.host.search.equalization import equalized
from app.conversion.toolchains.host.search.search import QuantizationSearch
from app.inference.runtimes.sessions import open_session, run
from tests.harness.models.host import model_of, random_weights
from tests.unit.conversion.toolchains.host.search.test_search import pictures

LIMITS = np.array([40.0, 1.0, 0.5, 2.0, 1.0, 0.1], np.float32)
SIDE = 12


def gated(gate: str = "Sigmoid", *, wide: float = 1.0) -> Any:
    """Two layers with x · g(x), joined, and two that read them, one of them depthwise; `wide` widens three channels
    whose readers have weights that are as much smaller."""
    factors = np.array([wide, 1, 1, wide, 1, wide], np.float32)
    inverse = np.concatenate([1 / factors, np.ones(6, np.float32)])
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node(gate, ["a"], ["g"], "gate1"),
        helper.make_node("Mul", ["a", "g"], ["b"], "mul1"),
        helper.make_node("Conv", ["x", "w2", "b2"], ["c"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node(gate, ["c"], ["h"], "gate2"),
        helper.make_node("Mul", ["h", "c"], ["d"], "mul2"),
        helper.make_node("Concat", ["d", "b"], ["e"], "join", axis=1),
        helper.make_node("Conv", ["e", "w3"], ["y"], "conv3"),
        helper.make_node("Conv", ["e", "w4"], ["z"], "conv4", group=12),
    ]
    weights = {
        "w1": random_weights(6, 3, 3, 3) * factors.reshape(-1, 1, 1, 1),
        "b1": random_weights(6) * factors,
        "w2": random_weights(6, 3, 3, 3, seed=1),
        "b2": random_weights(6, seed=2),
        "w3": random_weights(2, 12, 1, 1, seed=3) * np.roll(inverse, 6).reshape(1, -1, 1, 1),
        "w4": random_weights(12, 1, 1, 1, seed=4) * np.roll(inverse, 6).reshape(-1, 1, 1, 1),
    }
    shapes = {"y": [1, 2, SIDE, SIDE], "z": [1, 12, SIDE, SIDE]}
    return onnx.shape_inference.infer_shapes(model_of(nodes, {"x": [1, 3, SIDE, SIDE]}, shapes, weights))


def outputs(model: Any) -> dict[str, Array]:
    return run(open_session(model.SerializeToString(), 1), pictures(1, SIDE)[0].arrays)


@pytest.mark.parametrize("gate", ["Sigmoid", "HardSigmoid"])
def test_a_gate_gets_its_input_back_and_the_network_computes_the_same(gate: str) -> None:
    model = gated(gate)
    done = equalized(model, lambda tensor: LIMITS if tensor in "bd" else None)
    assert {"a", "b", "c", "d", "e"} <= set(done.tensors) and len(done.left_in_float) == 2
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in done.model.graph.initializer}
    given = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    assert not np.allclose(values["b1"], given["b1"]) and not np.allclose(values["w4"], given["w4"])
    for name, expected in outputs(model).items():
        np.testing.assert_allclose(outputs(done.model)[name], expected, rtol=1e-4, atol=1e-5)


def test_of_joined_layers_each_scales_its_own_channels_of_the_reader() -> None:
    model = gated()
    done = equalized(model, lambda tensor: LIMITS if tensor == "b" else None)
    ratio = [
        numpy_helper.to_array(next(t for t in one.graph.initializer if t.name == "w4")).reshape(-1)
        for one in (done.model, model)
    ]
    factors = ratio[0] / ratio[1]
    assert np.allclose(factors[:6], 1.0), "those of the other layer"
    assert not np.allclose(factors[6:], 1.0)


def test_a_gated_value_that_is_read_elsewhere_is_not_equalized() -> None:
    model = gated()
    model.graph.output.append(onnx.ValueInfoProto(name="g"))
    done = equalized(model, lambda tensor: LIMITS if tensor == "b" else None)
    assert (done.tensors, done.left_in_float) == (frozenset(), frozenset())


@pytest.mark.slow
def test_the_search_equalizes_through_gates_and_keeps_8_bits() -> None:
    model, options = gated(wide=60.0), HostQuantization(goal="snr>=18")
    result = QuantizationSearch(
        model,
        plan(model, options),
        pictures(9, SIDE),
        options,
        parse_goal("snr>=18"),
        threads=1,
        meter_of=lambda: None,
        step=lambda *_: None,
    ).run()
    taken = result.search["candidates"][result.search["taken"]]
    assert result.goal is not None and result.goal["is_reached"], result.search["candidates"]
    assert taken["tensors_16"] == 0 and "equalization" in [step["kind"] for step in taken["steps"]]
    plain = result.search["candidates"][0]
    assert taken["snr_db"] > plain["snr_db"] + 5
