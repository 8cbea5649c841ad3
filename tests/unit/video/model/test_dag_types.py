"""Inputs of stages, and the types of the outputs that they get."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.video.errors import BadDag
from app.video.model.dag import Dag, read_dag
from app.video.model.dag_types import check_types
from app.video.model.kinds import Type
from tests.harness.video.dags import DETECTION, KINDS, a_dag


def typed(**inputs: dict[str, str]) -> Dag:
    data = a_dag()
    for stage, fields in inputs.items():
        data["input"][stage] = fields
    return read_dag(data)


@pytest.mark.parametrize(
    ("inputs", "message", "hint"),
    [
        ({"face_detection": {}}, "dag.input.face_detection.image: is missing", "SingleFrameGenerator.image."),
        (
            {"face_detection": {"image": "SingleFrameGenerator.image", "mask": "SingleFrameGenerator.image"}},
            "dag.input.face_detection.mask: is no input of it",
            "It takes image.",
        ),
        (
            {"face_alignment": {"image": "SingleFrameGenerator.image", "bbox": "face_detection.prob"}},
            "dag.input.face_alignment.bbox: face_detection.prob is of type scores, not boxes",
            "face_detection.bbox.",
        ),
        (
            {"face_alignment": {"image": "SingleFrameGenerator.image", "bbox": "face_detection.boxes"}},
            "dag.input.face_alignment.bbox: face_detection has no output boxes",
            "It has bbox, prob.",
        ),
        (
            {"face_detection": {"image": "SingleFrameGenerator.clip"}},
            "dag.input.face_detection.image: SingleFrameGenerator has no output clip",
            "It has image.",
        ),
        (
            {"Render": {"image": "face_alignment.image", "count": "face_detection.prob"}},
            "dag.input.Render.count: face_detection.prob is of type scores, not counts",
            "face_alignment.count_result.",
        ),
        (
            {"Render": {"image": "face_detection.bbox", "count": "face_alignment.count_result"}},
            "dag.input.Render.image: face_detection.bbox is of type boxes, not image",
            "SingleFrameGenerator.image, face_alignment.image.",
        ),
        (
            {
                "Render": {
                    "image": "face_alignment.image",
                    "count": "face_alignment.count_result",
                    "text": "face_detection.bbox",
                }
            },
            "dag.input.Render.text: is no input of it",
            "It takes image, count.",
        ),
    ],
)
def test_inputs_of_the_wrong_kind_are_refused(inputs: dict[str, dict[str, str]], message: str, hint: str) -> None:
    with pytest.raises(BadDag) as caught:
        check_types(typed(**inputs), KINDS)
    assert caught.value.message == message
    assert hint in caught.value.hint


def test_an_optional_input_may_be_left_out() -> None:
    inputs = {"image": "SingleFrameGenerator.image", "bbox": "face_detection.bbox"}
    check_types(typed(face_alignment=inputs), KINDS)


def test_the_clip_generator_has_a_clip_and_its_first_picture() -> None:
    data = json.loads(json.dumps(a_dag()).replace("SingleFrameGenerator", "ClipGenerator"))
    check_types(read_dag(data), KINDS)
    data["input"]["face_detection"]["image"] = "ClipGenerator.clip"
    with pytest.raises(BadDag, match=r"ClipGenerator\.clip is of type clip, not image"):
        check_types(read_dag(data), KINDS)
    clips = replace(DETECTION, inputs={"image": Type.CLIP})
    check_types(read_dag(data), {**KINDS, "face_detection": clips})
