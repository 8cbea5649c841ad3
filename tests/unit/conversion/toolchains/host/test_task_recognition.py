"""Which task a model has, by its family and its outputs."""

from __future__ import annotations

from onnx import helper

from app.conversion.toolchains.host.task_recognition import task_meter
from tests.harness.models import small


def test_a_detector_that_says_so_is_no_model_of_poses() -> None:
    nodes = [helper.make_node("Conv", ["x"], ["t"]), helper.make_node("Relu", ["t"], ["y"])]
    graph = small.model(nodes, [small.value("x", [1, 3, 640, 640])], [small.value("y", [1, 56, 8400])])
    helper.set_model_props(graph, {"task": "detect"})
    meter = task_meter(graph)
    assert meter is not None and meter.agreement().kind == "box_f1"


def test_what_is_of_no_known_kind_has_no_task() -> None:
    assert task_meter(small.relu((1, 39))) is None
    assert task_meter(small.conv()) is None
