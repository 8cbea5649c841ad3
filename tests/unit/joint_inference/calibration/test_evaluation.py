"""Both models over one sample, and what is true of it."""

from __future__ import annotations

from pathlib import Path

from app.inference.prediction import Box
from app.joint_inference.calibration import evaluation
from app.joint_inference.calibration.predictions import GroundTruth
from app.joint_inference.calibration.quality import Kind, measure, ratio
from app.joint_inference.calibration.samples import CalibrationSample
from tests.harness.models.vision import card, opened, plain, two_classes

PERSON, CAR = Box(5, 5, 11, 11, 1.0, 0), Box(13, 5, 19, 11, 1.0, 1)


def test_what_does_not_count_is_not_missing_either(tmp_path: Path) -> None:
    told = card(labels=("person", "car"))
    (tmp_path / "a").mkdir()
    edge = opened(tmp_path, two_classes(), told, classes=("person",))
    cloud = opened(tmp_path / "a", two_classes(), told, classes=("person",))
    sample = CalibrationSample("1", plain(1, 2, 3, 32, 32), GroundTruth(boxes=(PERSON, CAR)))
    answered = evaluation._predict_sample(sample, edge, cloud)
    assert answered is not None
    assert answered.truth.boxes == (PERSON,)
    measured = measure([answered])
    assert (measured.kind, ratio(measured.edge)) == (Kind.F1, 1.0)
