"""A small model that speaks of terabytes is looked at in little memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from app.conversion.toolchains import graph
from app.conversion.toolchains.base import Progress
from app.conversion.toolchains.host.graph_surgery import infer_shapes
from app.kit.sandbox.runner import Limits, Sandbox
from tests.harness.models import host as host_models

LIMITS = Limits(memory_bytes=2 << 30, time_s=60, threads=1)
MODEST_BYTES = 1 << 30
ENORMOUS = 1 << 40


def greedy(operator: str) -> onnx.ModelProto:
    """A good model with a branch beside it whose values would fill every memory."""
    model = host_models.convolutional()
    for name, value in (("zero", 0), ("one", 1), ("end", ENORMOUS)):
        model.graph.initializer.append(helper.make_tensor(name, TensorProto.INT64, [], [value]))
    model.graph.initializer.append(helper.make_tensor("size", TensorProto.INT64, [1], [ENORMOUS]))
    inputs = {"Range": ["zero", "end", "one"], "ConstantOfShape": ["size"]}[operator]
    model.graph.node.append(helper.make_node(operator, inputs, ["greedy"]))
    model.graph.node.append(helper.make_node("Cast", ["greedy"], ["cast"], to=TensorProto.FLOAT))
    model.graph.output.append(helper.make_tensor_value_info("cast", TensorProto.FLOAT, None))
    return model


def look(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    model = greedy(request["operator"])
    infer_shapes(model)
    return {"macs": graph.facts(model)["macs"]}


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    made = Sandbox()
    yield made
    made.close()


@pytest.mark.parametrize("operator", ["Range", "ConstantOfShape"])
def test_shapes_are_inferred_without_writing_out_what_they_are_computed_from(
    sandbox: Sandbox, tmp_path: Path, operator: str
) -> None:
    target = "tests.integration.toolchains.test_host_memory:look"
    finished = sandbox.run(target, {"operator": operator}, work_dir=tmp_path, limits=LIMITS)
    assert finished.peak_bytes < MODEST_BYTES
    assert finished.result["macs"] == graph.facts(host_models.convolutional())["macs"] > 0
