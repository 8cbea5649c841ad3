"""The calibration doctor: what is measured of real and made pictures, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx
import pytest
from PIL import Image

from app.conversion.intake import calibration_checks
from app.conversion.intake.calibration_checks import CalibrationTarget, SampleStats, diagnose
from app.conversion.intake.calibration_report import Finding, PictureStats
from app.conversion.intake.expected_range import expectation_of
from app.conversion.intake.sample_measurement import measure_picture, measure_pictures
from app.conversion.options import Preprocess
from app.conversion.presets import PREPROCESS
from app.inference.preprocess_options import read_preprocess
from tests.harness.paths import SHARED_DATA

STREETS = sorted((SHARED_DATA / "images").glob("*.jpg"))
FACE_MODEL = SHARED_DATA / "models" / "face_rfb_320.onnx"
needs_pictures = pytest.mark.skipif(len(STREETS) < 10, reason="the real pictures are not here")
UNIT = Preprocess()
WIDE = CalibrationTarget(channels=3, size=(320, 240))


def found(
    pictures: Sequence[PictureStats], preprocess: Preprocess = UNIT, target: CalibrationTarget = WIDE
) -> dict[str, Finding]:
    measured = SampleStats(len(pictures), pictures, kinds={"image": len(pictures)})
    return {finding.code: finding for finding in diagnose(measured, target, preprocess)}


@needs_pictures
def test_real_pictures_are_measured_and_found_different() -> None:
    pictures, unreadable = measure_pictures(STREETS)
    assert not unreadable
    assert all(10 < p.deviation < 120 and not p.is_gray for p in pictures)
    assert "NEAR_DUPLICATES" not in found(pictures)


@needs_pictures
def test_a_recompressed_smaller_copy_is_recognised(tmp_path: Path) -> None:
    with Image.open(STREETS[0]) as original:
        original.resize((original.width // 2, original.height // 2)).save(tmp_path / "copy.jpg", quality=60)
    one, other = measure_picture(STREETS[0]), measure_picture(tmp_path / "copy.jpg")
    assert (one.dhash ^ other.dhash).bit_count() <= calibration_checks.NEAR_BITS
    strangers = [measure_picture(path) for path in STREETS[1:]]
    assert all((one.dhash ^ stranger.dhash).bit_count() > calibration_checks.NEAR_BITS for stranger in strangers)


@needs_pictures
@pytest.mark.skipif(not FACE_MODEL.exists(), reason="the real model is not here")
def test_a_real_model_tells_which_preprocessing_it_was_trained_on() -> None:
    expectation = expectation_of(onnx.load(FACE_MODEL))
    assert expectation.mean == pytest.approx(-0.16, abs=0.1)
    assert expectation.deviation == pytest.approx(0.6, abs=0.1)
    pictures, _ = measure_pictures(STREETS)
    target = CalibrationTarget(3, (320, 240), expectation)
    codes = {name: set(found(pictures, read_preprocess(p), target)) for name, p in PREPROCESS.items()}
    wrong = {"WRONG_SCALE", "WRONG_OFFSET", "OTHER_PREPROCESSING"}
    assert not codes["shift127"] & wrong
    assert "WRONG_SCALE" in codes["bytes_bgr"]
    assert "OTHER_PREPROCESSING" in codes["unit"]
