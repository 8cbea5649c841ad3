"""The six figures in words, of a host conversion and of one for a chip."""

from __future__ import annotations

from typing import Any

from app.conversion.pages.quality import build_quality_context
from app.conversion.service.quality import Reports
from app.kit.web.templates import environment
from tests.harness.page_text import text_of
from tests.unit.conversion.service.quality.test_quality import BIE, CHIP_BIE, CHIP_NEF, CHIP_ONNX, NEF, ONNX


def strip(reports: Reports, toolchain: str) -> str:
    """Its text, one space between words."""
    quality = reports.quality(toolchain)
    template = environment("en").from_string(
        '{% import "conversion/_numbers.html" as n with context %}{% include "conversion/_job_strip.html" %}'
    )
    context: dict[str, Any] = {
        **build_quality_context(quality),
        "conversion_goal": quality.goal,
        "job": {"artifacts": {}},
    }
    return text_of(template.render(**context))


def test_a_host_conversion_is_told_in_quality_size_and_speed() -> None:
    text = strip(Reports(ONNX, BIE, NEF), "host")
    for fragment in (
        "38.9 dB worst output",
        "meets the vendor's 20 dB.",
        "4.0× smaller",
        "4.0× faster",
        "3 /4",
        "1 in float",
    ):
        assert fragment in text
    assert "Compile exact bit-true, 8 samples" in text


def test_an_output_below_the_rule_is_counted() -> None:
    low = {**BIE["quality"]["outputs"][0], "name": "z", "snr_db": {"mean": 12.7, "min": 2.0, "p5": 5.0, "n": 8}}
    bie = {**BIE, "quality": {**BIE["quality"], "outputs": [*BIE["quality"]["outputs"], low]}}
    text = strip(Reports(ONNX, bie, NEF), "host")
    assert "12.7 dB worst output ( z )" in text and "1 of 2 outputs is below the vendor's 20 dB." in text


def test_a_goal_that_was_missed_is_said_with_the_range_of_the_judgement() -> None:
    goal = {"text": "snr>=45", "kind": "snr", "threshold": 45.0, "is_reached": False, "reason_code": "out_of_reach"}
    judgement = {"n": 10, "low_db": 30.1, "high_db": 40.2, "altered_db": 28.4}
    text = strip(Reports(ONNX, {**BIE, "goal": goal, "judgement": judgement}, NEF), "host")
    assert "The goal snr>=45 was not reached. No candidate reaches the goal." in text
    assert "On 10 pictures not used for calibration: mean 30.1 to 40.2 dB." in text
    assert "The same pictures zoomed in and darkened: mean at least 28.4 dB." in text
    crossed = {**judgement, "calibrate": 10, "report": 10}
    crossed_text = strip(Reports(ONNX, {**BIE, "goal": goal, "judgement": crossed}, NEF), "host")
    assert "On 10 pictures, each judged by a model calibrated without it: mean 30.1 to 40.2 dB." in crossed_text
    stricter = {**judgement, "refused": 2}
    goal_16 = {**goal, "reason_code": "sixteen_bits"}
    beyond = strip(Reports(ONNX, {**BIE, "goal": goal_16, "judgement": stricter}, NEF), "host")
    assert (
        "Not even 16 bits for all tensors are enough." in beyond and "2 candidates that met the goal on the" in beyond
    )
    own = strip(Reports(ONNX, {**BIE, "goal": goal, "judgement": {**judgement, "is_own_set": True}}, NEF), "host")
    assert "On the 10 report pictures: mean 30.1 to 40.2 dB." in own


def test_a_conversion_for_a_chip_is_told_in_the_evaluators_numbers_as_estimates() -> None:
    text = strip(Reports(CHIP_ONNX, CHIP_BIE, CHIP_NEF), "kneron")
    assert "14.4 fps" in text and "100 ms estimated, not measured" in text and "CPU nodes 1 these slow it down" in text


def test_what_a_chip_did_not_measure_is_said() -> None:
    text = strip(Reports(CHIP_ONNX, {**CHIP_BIE, "quantization": {}}, CHIP_NEF), "kneron")
    assert "The toolchain measured no SNR." in text


def test_a_loss_of_the_task_behind_a_good_snr_makes_the_verdict_a_warning() -> None:
    bie = {**BIE, "quality": {**BIE["quality"], "task": {"kind": "top1", "n": 8, "float_agreement": 0.875}}}
    text = strip(Reports(ONNX, bie, NEF), "host")
    assert "But the task loses 12.5 percent." in text
    assert "the task loses" not in strip(Reports(ONNX, BIE, NEF), "host")
