"""Kinds of stages by name: the product's own and those of entry points."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.edge.video.stages import registry
from app.edge.video.stages.registry import BUNDLED, kinds, stage_class
from app.video.errors import BadStage
from app.video.model.kinds import Metric, Type

OWN = """
from app.video.model.kinds import StageKind, Type

class Own:
    kind = StageKind("own", {"image": Type.IMAGE}, {"count_result": Type.COUNTS}, models=0)
    runtime = "python"
    def __init__(self, models, parameters): pass
    def run(self, inputs): return {"count_result": {"own": 1}}

class Other(Own):
    kind = StageKind("another", {}, {})

class Taken(Own):
    kind = StageKind("motion", {}, {})
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    about = tmp_path / "own_stages-1.0.dist-info"
    about.mkdir()
    (tmp_path / "own_stages_of_test.py").write_text(OWN)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-stages\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[modelmill.video_stages]\nown = own_stages_of_test:Own\nbroken = not_there:X\nplain = os:getcwd\n"
        "misnamed = own_stages_of_test:Other\nmotion = own_stages_of_test:Taken\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry._load_classes.cache_clear()
    yield tmp_path
    registry._load_classes.cache_clear()
    sys.modules.pop("own_stages_of_test", None)


def test_the_kinds_of_the_requirement_are_there() -> None:
    by_name = kinds()
    assert {"face_detection", "face_alignment", "detection", "classification", "motion"} <= by_name.keys()
    assert by_name["face_detection"].inputs == {"image": Type.IMAGE}
    assert {"bbox", "prob"} <= by_name["face_detection"].outputs.keys()
    assert by_name["face_alignment"].inputs == {"image": Type.IMAGE, "bbox": Type.BOXES, "prob": Type.SCORES}
    assert {"image", "count_result", "head_pose"} <= by_name["face_alignment"].outputs.keys()
    assert by_name["face_alignment"].metric is Metric.MAE
    assert [count for count in range(4) if by_name["face_alignment"].takes(count)] == [1, 2]


@pytest.mark.parametrize("each", BUNDLED, ids=lambda each: each.kind.name)
def test_what_a_kind_says_of_itself_fits_together(each: type) -> None:
    kind = each.kind  # type: ignore[attr-defined]
    assert kind.optional <= kind.inputs.keys()
    assert bool(kind.metric) == bool(kind.compared)
    assert kind.compared in {"", *kind.outputs}
    assert kind.outputs.get(kind.tracks, Type.BOXES) is Type.BOXES
    assert kind.draws == ("image" in kind.outputs)
    assert "timeout_s" in kind.parameters


def test_an_unknown_kind_is_told_with_those_there_are() -> None:
    with pytest.raises(BadStage, match="no kind of stage 'helmet'") as caught:
        stage_class("helmet")
    assert "face_detection" in caught.value.hint


def test_own_kinds_come_by_entry_points_and_faulty_ones_are_left_out(
    installed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    by_name = kinds()
    assert by_name["own"].models == 0
    assert stage_class("own")([], {}).run({}) == {"count_result": {"own": 1}}
    assert not {"broken", "plain", "misnamed"} & by_name.keys()
    assert by_name["motion"].inputs == {"clip": Type.CLIP}
    told = " ".join(caplog.messages)
    for remark in ("broken of not_there:X", "plain of os:getcwd", "'another'", "the name is taken"):
        assert remark in told
