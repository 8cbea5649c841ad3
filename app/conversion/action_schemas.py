"""The JSON of next actions and of what a search tried."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from app.conversion.schemas import OfView


class ActionAnswer(OfView):
    code: str
    params: dict[str, Any]
    text: str
    """In English, with its numbers."""
    gain_db: float | None
    """Of SNR at the worst output, against what was built; null: not known."""
    size_delta_bytes: int | None
    latency_delta_ms: float | None
    is_measured: bool
    """Was it tried? Else the gain is an expectation."""
    options_patch: dict[str, Any]
    """A JSON merge patch for the job's options that applies it; empty: nothing to apply by itself."""


class CandidateAnswer(OfView):
    id: int
    name: str
    snr_db: float | None
    """Of the worst output."""
    snr_min_db: float | None
    altered_db: float | None
    """The lower end of what the pictures give from nearer and darker; null where they were not tried."""
    int8_share: float | None
    size_bytes: int | None
    latency_ms: float | None
    drop_percent: float | None
    is_taken: bool
    is_measured: bool
    """Built and run; else simulated."""
    verdict_code: str
    is_on_front: bool
    """Does no other beat it at signal to noise, size and latency?"""
    steps: list[dict[str, Any]]
    options: dict[str, Any]


class ActionsAnswer(BaseModel):
    actions: list[ActionAnswer]
    candidates: list[CandidateAnswer]
