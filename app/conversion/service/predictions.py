"""Compares the predicted gain of an applied action with its result. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import quantiles

from app.conversion.model import JobRecord, Stage
from app.kit.text.json_values import JsonObject

JOBS_LEAST = 3
"""Fewer are not enough for a statement."""


@dataclass(frozen=True)
class PredictionAccuracy:
    """The accuracy of the predictions of applied actions."""

    jobs: int
    """Number of jobs with a prediction."""
    off_by_db: float
    """Three of four predictions had at most this error, in dB of SNR."""


def prediction_error_db(record: JobRecord) -> float | None:
    """Difference between the resulting and the predicted SNR: of the action that the job applied, otherwise of what its
    search predicted of candidates; None without either."""
    promised = (record.intake.get("prediction") or {}).get("snr_db")
    summary = record.stages[Stage.BIE.step].summary
    achieved, expected_off_db = summary.get("snr_db"), summary.get("expected_off_db")
    if promised is None or achieved is None:
        return None if expected_off_db is None else float(expected_off_db)
    return float(abs(achieved - promised))


def prediction_accuracy(errors_db: Iterable[float | None]) -> PredictionAccuracy | None:
    """None for too few."""
    known = [error for error in errors_db if error is not None]
    if len(known) < JOBS_LEAST:
        return None
    return PredictionAccuracy(len(known), round(quantiles(known, n=4, method="inclusive")[2], 2))


def prediction_of(code: str, job_id: str, snr_db: float | None) -> JsonObject:
    """Stored in the record of a job that applies an action of another; empty without a prediction."""
    return {} if snr_db is None else {"code": code, "job_id": job_id, "snr_db": round(snr_db, 2)}
