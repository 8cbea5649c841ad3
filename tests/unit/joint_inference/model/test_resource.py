"""What a specification says of both workers."""

from __future__ import annotations

from typing import Any

from app.joint_inference.model.resource import specification_of
from tests.harness.joint.nodes import helmet


def spec(edge: dict[str, str], cloud: dict[str, str]) -> Any:
    made = helmet()["spec"]
    for side, parameters in (("edgeWorker", edge), ("cloudWorker", cloud)):
        made[side]["workerSpec"]["parameters"] = [{"key": key, "value": value} for key, value in parameters.items()]
    return made


def test_the_classes_of_the_edge_hold_for_a_cloud_that_names_none() -> None:
    assert specification_of(spec({"classes": "person"}, {"a": "1"})).cloud.parameters == {"a": "1", "classes": "person"}
    own = specification_of(spec({"classes": "person"}, {"classes": "pedestrian"}))
    assert own.cloud.parameters == {"classes": "pedestrian"}
    assert specification_of(spec({}, {"classes": "car"})).edge.parameters == {}
