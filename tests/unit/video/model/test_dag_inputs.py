"""A DAG from a list of stages."""

from __future__ import annotations

import pytest

from app.video.errors import BadDag
from app.video.model.dag_inputs import chain_stages, with_render
from app.video.model.kinds import StageKind, Type
from tests.harness.video.records import dag

DETECTION = StageKind("face_detection", {"image": Type.IMAGE}, {"bbox": Type.BOXES, "prob": Type.SCORES})
ALIGNMENT = StageKind(
    "face_alignment",
    {"image": Type.IMAGE, "bbox": Type.BOXES, "prob": Type.SCORES},
    {"head_pose": Type.POSES, "count_result": Type.COUNTS, "image": Type.IMAGE},
)
COUNTING = StageKind("counting", {"where": Type.BOXES}, {"count": Type.COUNTS})


def test_the_requirements_example_goes_without_saying() -> None:
    assert chain_stages([("face_detection", DETECTION), ("face_alignment", ALIGNMENT)]) == dag()


def test_a_dag_without_render_shows_what_its_last_stage_drew_and_counted() -> None:
    kinds, whole = {"face_detection": DETECTION, "face_alignment": ALIGNMENT}, dag()
    cut = {**whole, "input": {name: fields for name, fields in whole["input"].items() if name != "Render"}}
    assert with_render(cut, kinds) == whole
    other = {**whole, "input": {**cut["input"], "Render": {}}}
    assert with_render(other, kinds) == other, "what is there is its writer's"
    for broken in ({}, {**cut, "flow": 7}, {**cut, "generator": "Magic"}, {**cut, "flow": ["face_detection", []]}):
        assert with_render(broken, kinds) == broken


def test_an_input_of_another_name_is_found_by_its_type() -> None:
    made = chain_stages([("a", DETECTION), ("b", COUNTING)])["input"]
    assert made["b"] == {"where": "a.bbox"}
    assert made["Render"] == {"image": "SingleFrameGenerator.image", "count": "b.count"}


def test_a_stage_that_takes_clips_has_the_generator_of_clips() -> None:
    kind = StageKind("k", {"clip": Type.CLIP}, {"count": Type.COUNTS})
    made = chain_stages([("k", kind)])
    assert (made["generator"], made["flow"]) == ("ClipGenerator", ["ClipGenerator", "k"])
    assert made["input"]["k"] == {"clip": "ClipGenerator.clip"}


def test_what_is_optional_may_be_left_out_and_nothing_else() -> None:
    kind = StageKind("k", {"image": Type.IMAGE, "bbox": Type.BOXES}, {"count": Type.COUNTS}, frozenset({"bbox"}))
    assert chain_stages([("k", kind)])["input"]["k"] == {"image": "SingleFrameGenerator.image"}
    with pytest.raises(BadDag, match=r"face_alignment\.bbox"):
        chain_stages([("face_alignment", ALIGNMENT)])
    with pytest.raises(BadDag, match=r"Render\.count"):
        chain_stages([("face_detection", DETECTION)])
