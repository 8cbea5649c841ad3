"""What a policy is asked: which measurements hold for a stage as it is now."""

from __future__ import annotations

from app.inference.model_card import Format, ModelCard
from app.video.model.kinds import Stage
from app.video.model.report import Measurement, model_of
from app.video.service.planner_input import profile_of

ONE, OTHER = (ModelCard(name, Format.ONNX, name * 64, 1) for name in "ab")


def test_models_that_begin_with_the_same_file_are_measured_apart() -> None:
    names = [model_of(cards) for cards in ((ONE, OTHER), (OTHER,), (ONE,), ())]
    assert len(set(names)) == 4 and names[1:] == [OTHER.sha256, ONE.sha256, ""]
    assert len(names[0]) == 64
    stage = Stage("poses", "face_alignment", ((ONE, OTHER), (OTHER,), (ONE,)))
    rows = [Measurement("edge0", "poses", 0, name, "480p", delay, 1.0, 1.0) for delay, name in enumerate(names)]
    assert [(one["model_id"], one["delay_s"]) for one in profile_of([stage], rows)] == [(0, 0), (1, 1), (2, 2)]
