"""Stages as users declare them and as nodes get them, there and back through JSON."""

from __future__ import annotations

import json

import pytest

from app.inference.model_card import Format, ModelCard
from app.video.model.kinds import GENERATORS, STAGE_SPEC, Stage, StageSpec, stages_to_json

CARD = ModelCard("m", Format.ONNX, "a" * 64, 5)


def test_a_spec_comes_back_as_it_went() -> None:
    spec = StageSpec("pose", "face_alignment", (("a", "b"), ("c", "d")), {"score": "0.5"})
    assert STAGE_SPEC.read(json.loads(json.dumps(STAGE_SPEC.write(spec)))) == spec


@pytest.mark.parametrize("data", [{}, {"name": "a", "kind": "b"}, {"name": "a", "kind": "b", "models": 1}])
def test_a_spec_that_is_none_is_told(data: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        STAGE_SPEC.read(data)


def test_a_stage_comes_back_as_it_went() -> None:
    stage = Stage("pose", "face_alignment", ((CARD, CARD), (CARD,)), {"score": "0.5"})
    assert [Stage.from_json(data) for data in json.loads(json.dumps(stages_to_json([stage])))] == [stage]


def test_the_requirements_generators_are_there() -> None:
    assert {name: set(kind.outputs) for name, kind in GENERATORS.items()} == {
        "SingleFrameGenerator": {"image"},
        "ClipGenerator": {"clip", "image"},
    }
