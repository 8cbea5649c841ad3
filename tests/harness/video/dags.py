"""The requirement's DAG, and kinds for its two stages."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from app.video.model.kinds import Metric, StageKind, Type

REQUIREMENT: dict[str, Any] = {
    "generator": "SingleFrameGenerator",
    "flow": ["SingleFrameGenerator", "face_detection", "face_alignment"],
    "input": {
        "face_detection": {"image": "SingleFrameGenerator.image"},
        "face_alignment": {
            "image": "SingleFrameGenerator.image",
            "bbox": "face_detection.bbox",
            "prob": "face_detection.prob",
        },
        "Render": {"image": "face_alignment.image", "count": "face_alignment.count_result"},
    },
}
DETECTION = StageKind(
    "face_detection",
    {"image": Type.IMAGE},
    {"bbox": Type.BOXES, "prob": Type.SCORES},
    metric=Metric.IOU,
    compared="bbox",
    tracks="bbox",
)
ALIGNMENT = StageKind(
    "face_alignment",
    {"image": Type.IMAGE, "bbox": Type.BOXES, "prob": Type.SCORES},
    {"head_pose": Type.POSES, "image": Type.IMAGE, "count_result": Type.COUNTS},
    optional=frozenset({"prob"}),
    metric=Metric.MAE,
    compared="head_pose",
    models=2,
    draws=True,
)
KINDS = {"face_detection": DETECTION, "face_alignment": ALIGNMENT}


def a_dag(**changes: Any) -> dict[str, Any]:
    return {**deepcopy(REQUIREMENT), **changes}


def a_graph(flow: dict[str, Any]) -> dict[str, Any]:
    """Of stages that are given the picture; Render has the first one's outputs."""
    stages = [stage for stage in flow if not stage.endswith("Generator")]
    inputs: dict[str, dict[str, str]] = {stage: {"image": "SingleFrameGenerator.image"} for stage in stages}
    inputs["Render"] = {"image": "SingleFrameGenerator.image", "count": f"{stages[0]}.count" if stages else "a.b"}
    return {"generator": "SingleFrameGenerator", "flow": flow, "input": inputs}
