"""How right the promises of applied actions were."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.conversion.model import JobRecord, Stage, StageRecord, submitted
from app.conversion.options import Options
from app.conversion.service.predictions import (
    PredictionAccuracy,
    prediction_accuracy,
    prediction_error_db,
    prediction_of,
)
from app.kit.web.templates import environment


def job(promised: float | None, achieved: float | None) -> JobRecord:
    intake = {"prediction": prediction_of("candidate", "a", promised)}
    record = submitted(
        "b", now="2026-01-01T00:00:00Z", owner="", name="", tags=(), options=Options(), inputs={}, intake=intake
    )
    summary = {} if achieved is None else {"snr_db": achieved}
    return replace(record, stages={**record.stages, Stage.BIE.step: StageRecord(summary=summary)})


def test_the_error_is_what_lies_between_promise_and_result() -> None:
    assert prediction_error_db(job(21.0, 19.5)) == pytest.approx(1.5)
    assert prediction_error_db(job(None, 19.5)) is None
    assert prediction_error_db(job(21.0, None)) is None


def test_a_job_that_applied_no_action_tells_how_far_off_its_searchs_own_predictions_were() -> None:
    searched = job(None, 19.5)
    bie = StageRecord(summary={"snr_db": 19.5, "expected_off_db": 0.8})
    searched = replace(searched, stages={**searched.stages, Stage.BIE.step: bie})
    assert prediction_error_db(searched) == 0.8


def test_the_system_page_says_how_far_off_predictions_are() -> None:
    macros = environment("en").get_template("conversion/_state.html").module
    assert "last 4 jobs at most 1.2 dB off" in str(macros.prediction_accuracy(PredictionAccuracy(4, 1.23)))


def test_three_of_four_promises_were_off_by_so_much_or_less() -> None:
    assert prediction_accuracy([1.0, 0.5, None, 0.0, 2.0]) == PredictionAccuracy(4, 1.25)
    assert prediction_accuracy([1.0, 0.5]) is None
