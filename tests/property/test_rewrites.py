"""Rewrites of a float model compute the same, whatever small graph they get."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import strategies as st
from onnx import helper

from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.search.channel_noise import rows_of
from app.conversion.toolchains.host.search.equalization import equalized
from app.conversion.toolchains.host.search.outlier_channels import split_channels
from app.conversion.toolchains.host.search.rewrite import Rewritten
from app.conversion.toolchains.host.search.smooth_quant import smooth
from app.inference.runtimes.sessions import open_session, run
from tests.harness.models.host import model_of
from tests.harness.timed_search import searched
from tests.unit.conversion.toolchains.host.search.test_search import Picture

pytestmark = pytest.mark.slow
SECONDS = 1.0
POSITIONS, SIDE = 5, 6
OF_ROWS = ("product", "product", "product_biased", "gelu", "norm", "decomposed_norm", "relu", "residual", "twice")
OF_MAPS = ("conv", "conv", "depthwise", "relu", "leaky", "silu", "pool", "residual", "twice")
RELATIVE = 1e-4


class _Graph:
    """A chain of layers with random constants, some of whose channels are much wider than the others."""

    def __init__(self, seed: int, *, is_map: bool) -> None:
        self.random = np.random.default_rng(seed)
        self.channels = int(self.random.integers(2, 20))
        self.is_map = is_map
        self.nodes: list[Any] = []
        self.weights: dict[str, Array] = {}
        self.input_shape = [1, self.channels, SIDE, SIDE] if is_map else [1, POSITIONS, self.channels]
        self.tensor = "x"

    def model(self, kinds: list[str]) -> Any:
        for kind in kinds:
            getattr(self, kind)()
        self.conv() if self.is_map else self.product()
        model = model_of(
            self.nodes, {"x": self.input_shape}, {self.tensor: [None] * len(self.input_shape)}, self.weights
        )
        return onnx.shape_inference.infer_shapes(model)

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [f"{name}_out"], name, **attributes))
        self.tensor = f"{name}_out"
        return self.tensor

    def constant(self, *shape: int, wide: int | None = None) -> str:
        """Args: wide: the axis along which a channel is widened."""
        values = self.random.normal(0, 0.5, shape).astype(np.float32)
        if wide is not None and self.random.random() < 0.7:
            np.moveaxis(values, wide, 0)[self.random.integers(shape[wide])] *= self.random.uniform(5, 60)
        name = f"c{len(self.weights)}"
        self.weights[name] = values
        return name

    def product(self) -> None:
        before, self.channels = self.channels, int(self.random.integers(2, 20))
        self.node("MatMul", self.tensor, self.constant(before, self.channels, wide=1))

    def product_biased(self) -> None:
        self.product()
        self.node("Add", self.tensor, self.constant(self.channels, wide=0))

    def norm(self) -> None:
        constants = self.constant(self.channels, wide=0), self.constant(self.channels, wide=0)
        self.node("LayerNormalization", self.tensor, *constants, axis=-1)

    def decomposed_norm(self) -> None:
        self.node("Mul", self.tensor, self.constant(self.channels, wide=0))
        self.node("Add", self.constant(self.channels, wide=0), self.tensor)

    def gelu(self) -> None:
        self.node("Mul", own := self.tensor, self.node("Erf", own))

    silu = gelu

    def relu(self) -> None:
        self.node("Relu", self.tensor)

    def leaky(self) -> None:
        self.node("LeakyRelu", self.tensor, alpha=0.1)

    def pool(self) -> None:
        self.node("MaxPool", self.tensor, kernel_shape=[2, 2])

    def residual(self) -> None:
        self.node("Add", own := self.tensor, self.node("Tanh", own))

    def twice(self) -> None:
        """Two layers read the same tensor."""
        source, before, self.channels = self.tensor, self.channels, int(self.random.integers(2, 20))
        if self.is_map:
            made = [self.node("Conv", source, self.constant(self.channels, before, 1, 1, wide=0)) for _ in range(2)]
        else:
            made = [self.node("MatMul", source, self.constant(before, self.channels, wide=1)) for _ in range(2)]
        self.node("Add", *made)

    def conv(self) -> None:
        before, self.channels = self.channels, int(self.random.integers(2, 20))
        constants = self.constant(self.channels, before, 1, 1, wide=0), self.constant(self.channels, wide=0)
        self.node("Conv", self.tensor, *constants[: int(self.random.integers(1, 3))])

    def depthwise(self) -> None:
        constants = self.constant(self.channels, 1, 1, 1, wide=0), self.constant(self.channels)
        self.node("Conv", self.tensor, *constants, group=self.channels)


def rewrites(model: Any, picture: Picture) -> dict[str, Callable[[], Rewritten]]:
    def rows(one: Any, tensors: Any) -> dict[str, Array]:
        return dict(rows_of(one, tensors, [picture], 1))

    def limits(tensor: str) -> Array | None:
        values = dict(rows_of(model, {tensor: 1}, [picture], 1))
        return np.abs(values[tensor]).max(axis=0)

    return {
        "equalization": lambda: equalized(model, limits),
        "smoothing": lambda: smooth(model, rows),
        "channel_splitting": lambda: split_channels(model, rows),
    }


@pytest.mark.parametrize("kind", ["equalization", "smoothing", "channel_splitting"])
def test_a_rewritten_model_computes_the_same(kind: str) -> None:
    changed = 0

    @searched(st.integers(0, 2**32 - 1), st.booleans(), st.lists(st.integers(0, 8), max_size=5), seconds=SECONDS)
    def check(seed: int, is_map: bool, places: list[int]) -> None:
        nonlocal changed
        graph = _Graph(seed, is_map=is_map)
        shape = graph.input_shape
        model = graph.model([(OF_MAPS if is_map else OF_ROWS)[place] for place in places])
        picture = Picture("p", {"x": graph.random.normal(size=shape).astype(np.float32)})
        done = rewrites(model, picture)[kind]()
        changed += bool(done.tensors)
        onnx.checker.check_model(done.model, full_check=True)
        expected, actual = (
            next(iter(run(open_session(one.SerializeToString(), 1), picture.arrays).values()))
            for one in (model, done.model)
        )
        np.testing.assert_allclose(actual, expected, atol=RELATIVE * float(np.abs(expected).max(initial=1e-6)))

    check()
    assert changed, "nothing was rewritten, so nothing was tested"
