"""Compares the predicted gain of an applied action with its result. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import quantiles
from typing import Any

from app.conversion.model import JobRecord, Stage

JOBS_LEAST = 3
"""Fewer say nothing of the next one."""


@dataclass(frozen=True)
class PredictionAccuracy:
    """How right the predictions of applied actions were."""

    jobs: int
    """How many jobs had one."""
    off_by_db: float
    """Three of four predictions were wrong by so many dB of SNR, or less."""


def prediction_error_db(record: JobRecord) -> float | None:
    """Distance of the SNR that the job came to from the one it was submitted for; None if one of them is missing."""
    promised = (record.intake.get("prediction") or {}).get("snr_db")
    achieved = record.stages[Stage.BIE.step].summary.get("snr_db")
    return None if promised is None or achieved is None else abs(achieved - promised)


def prediction_accuracy(errors_db: Iterable[float | None]) -> PredictionAccuracy | None:
    """None for too few."""
    known = [error for error in errors_db if error is not None]
    if len(known) < JOBS_LEAST:
        return None
    return PredictionAccuracy(len(known), round(quantiles(known, n=4, method="inclusive")[2], 2))


def prediction_of(code: str, job_id: str, snr_db: float | None) -> dict[str, Any]:
    """What the record of a job keeps that applies an action of another; empty if nothing was promised."""
    return {} if snr_db is None else {"code": code, "job_id": job_id, "snr_db": round(snr_db, 2)}
