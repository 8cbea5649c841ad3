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


def test_three_of_four_promises_were_off_by_so_much_or_less() -> None:
    assert prediction_accuracy([1.0, 0.5, None, 0.0, 2.0]) == PredictionAccuracy(4, 1.25)
    assert prediction_accuracy([1.0, 0.5]) is None
