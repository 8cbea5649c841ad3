"""Several maxima over one tensor start from each other, without a change of any value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper

from app.conversion.model import Stage
from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.pool_cascade import cascade_pools
from app.inference.runtimes.sessions import open_session, run
from tests.harness.models.host import model_of, pictures, random_weights, run_all, work_folder

pytestmark = pytest.mark.slow  # nearly each of them converts a model


def pool(name: str, side: int, **attributes: Any) -> onnx.NodeProto:
    usual = {"kernel_shape": [side, side], "pads": [side // 2] * 4} | attributes
    return helper.make_node("MaxPool", ["x"], [name], name, **usual)


def pools(sides: list[int], size: tuple[int, int]) -> onnx.ModelProto:
    shape = [1, 2, *size]
    names = [f"p{place}" for place in range(len(sides))]
    nodes = [pool(name, side) for name, side in zip(names, sides, strict=True)]
    return model_of(nodes, {"x": shape}, dict.fromkeys(names, shape))


def answers(model: onnx.ModelProto, x: Array) -> dict[str, Array]:
    return run(open_session(model.SerializeToString(), 1), {"x": x})


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(0, 6).map(lambda half: 2 * half + 1), min_size=1, max_size=4),
    st.tuples(st.integers(1, 15), st.integers(1, 15)),
    st.integers(0, 1000),
)
def test_no_value_changes_whatever_the_windows_and_however_small_the_tensor(
    sides: list[int], size: tuple[int, int], seed: int
) -> None:
    model = pools(sides, size)
    x = np.random.default_rng(seed).normal(size=(1, 2, *size)).astype(np.float32)
    expected = answers(model, x)
    is_changed = bool(cascade_pools(model))
    assert is_changed == (len(set(sides)) > 1)
    onnx.checker.check_model(model)
    actual = answers(model, x)
    assert all(np.array_equal(expected[name], actual[name]) for name in expected)


def test_each_starts_from_the_next_smaller_one_in_whatever_order_they_stand() -> None:
    model = pools([13, 5, 9], (20, 20))
    assert cascade_pools(model) == ["2 maxima start from smaller ones"]
    assert {node.output[0]: node.input[0] for node in model.graph.node} == {"p1": "x", "p2": "p1", "p0": "p2"}


@pytest.mark.parametrize(
    "other",
    [
        {"strides": [2, 2]},
        {"dilations": [2, 2]},
        {"pads": [0, 0, 0, 0]},
        {"pads": [4, 4, 3, 4]},
        {"kernel_shape": [9, 7]},
        {"kernel_shape": [8, 8]},
        {"auto_pad": "SAME_UPPER", "pads": None},
    ],
)
def test_others_stay_as_they_are(other: dict[str, Any]) -> None:
    attributes = {name: value for name, value in ({"pads": [4] * 4} | other).items() if value is not None}
    nodes = [pool("small", 5), helper.make_node("MaxPool", ["x"], ["y"], "y", **{"kernel_shape": [9, 9], **attributes})]
    model = model_of(nodes, {"x": [1, 2, 20, 20]}, {"small": [1, 2, 20, 20], "y": [1, 2, "h", "w"]})
    before = model.SerializeToString()
    assert cascade_pools(model) == []
    assert model.SerializeToString() == before


def test_a_conversion_says_so_and_every_file_computes_the_same(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "first"], ["a"], "conv0", pads=[1, 1, 1, 1]),
        *(
            helper.make_node("MaxPool", ["a"], [f"p{s}"], f"p{s}", kernel_shape=[s, s], pads=[s // 2] * 4)
            for s in (5, 9)
        ),
        helper.make_node("Concat", ["a", "p5", "p9"], ["c"], "concat", axis=1),
        helper.make_node("Conv", ["c", "second"], ["y"], "conv1"),
    ]
    weights = {"first": random_weights(8, 3, 3, 3), "second": random_weights(4, 24, 1, 1)}
    model = model_of(nodes, {"x": [1, 3, 16, 16]}, {"y": [1, 4, 16, 16]}, weights)
    reports = run_all(work_folder(tmp_path / "job", model, pictures(4)))
    report = reports[Stage.ONNX].report
    assert "1 maxima start from smaller ones" in report["changes"]
    assert report["equivalence"]["exact"]
    assert windows_of(tmp_path / "job" / "out.bie") == [5, 5]


def windows_of(path: Path) -> list[int]:
    nodes = [node for node in onnx.load(path).graph.node if node.op_type == "MaxPool"]
    return [one.ints[0] for node in nodes for one in node.attribute if one.name == "kernel_shape"]
