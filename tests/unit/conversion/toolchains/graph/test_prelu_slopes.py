"""One slope per channel in one dimension, as old exporters wrote it, is broadcast along the channels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from app.conversion.toolchains import graph
from tests.harness.models import small


def with_slopes(shape: Sequence[int | str], opset: int, dims: Sequence[int] = (4,)) -> onnx.ModelProto:
    """y = PRelu(x, slopes), one slope per channel of four, as (4,) unless said otherwise."""
    slopes = numpy_helper.from_array(np.arange(1, 5, dtype=np.float32).reshape(dims), "slopes")
    node = helper.make_node("PRelu", ["x", "slopes"], ["y"], "prelu")
    return small.model([node], [small.value("x", shape)], [small.value("y", shape)], [slopes], opset=opset)


@pytest.mark.parametrize(
    ("shape", "opset", "aligned"),
    [
        ((1, 4, 5, 6), 8, [4, 1, 1]),
        ((1, 4, "H", "W"), 8, [4, 1, 1]),
        ((1, 4, 6), 13, [4, 1]),
        ((1, 4, 5, 4), 6, [4, 1, 1]),
        ((1, 4, 5, 4), 7, [4]),
        ((1, 3, 5, 4), 8, [4]),
        ((1, 4), 8, [4]),
    ],
)
def test_slopes_lie_along_the_channels_that_they_fit_unless_they_fit_the_last_axis(
    shape: Sequence[int | str], opset: int, aligned: list[int]
) -> None:
    model = with_slopes(shape, opset)
    changes = graph.fit_versions(model, graph.HOST)
    (slopes,) = model.graph.initializer
    assert list(slopes.dims) == aligned
    assert (f"slopes 'slopes': shape [4] → {aligned}" in changes) == (aligned != [4])
    assert graph.fit_versions(model, graph.HOST) == []


def test_slopes_that_lie_along_the_channels_or_that_another_node_reads_stay() -> None:
    assert graph.fit_versions(with_slopes((1, 4, 5, 6), 13, (4, 1, 1)), graph.HOST) == []
    shared = with_slopes((1, 4, 5, 6), 13)
    shared.graph.node.append(helper.make_node("Neg", ["slopes"], ["negative"]))
    assert graph.fit_versions(shared, graph.HOST) == []


def test_slopes_of_opset_6_compute_what_they_did() -> None:
    model = with_slopes((1, 4, 5, 4), 6)
    model.ir_version = 3
    model.graph.input.append(small.value("slopes", (4,)))
    graph.fit_versions(model, graph.HOST)
    x = -np.random.default_rng(0).random((1, 4, 5, 4), np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    np.testing.assert_allclose(y, x * np.arange(1, 5, dtype=np.float32)[:, None, None])
