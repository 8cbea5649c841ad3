"""A calibration: its request and its progress. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from app.kit.text.json_form import JsonForm

MAX_SAMPLES = 2000
"""Samples in a set."""
TIME_S = 1800.0
"""Seconds that both models together may take for all samples."""
LOST_AFTER = timedelta(seconds=2 * TIME_S)
"""A calibration that has not ended after this time never will."""


class State(StrEnum):
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    READY = "READY"
    FAILED = "FAILED"


@dataclass(frozen=True)
class CalibrationRequest:
    """A user's request. The service's parameters are read when the calibration runs."""

    namespace: str
    """Of the service."""
    name: str
    """Of the service."""
    edge_model: str
    cloud_model: str
    set_name: str
    """Name of the file with the samples."""
    set_bytes: int
    """Size of that file."""


CALIBRATION_REQUEST = JsonForm(CalibrationRequest)


@dataclass(frozen=True)
class Calibration:
    """One calibration of a service."""

    calibration_id: str
    owner: str
    created_at: str
    state: State
    request: CalibrationRequest
    progress: int = 0
    """0..100."""
    error: Mapping[str, Any] = field(default_factory=dict)
    """Of a FAILED one, made by ModelmillError.to_dict."""

    @property
    def has_ended(self) -> bool:
        return self.state in (State.READY, State.FAILED)

    def is_under_way(self, now: datetime) -> bool:
        """Returns whether it waits or runs, and is not lost."""
        return not self.has_ended and not self.is_lost(now)

    def is_lost(self, now: datetime) -> bool:
        return not self.has_ended and now - datetime.fromisoformat(self.created_at) > LOST_AFTER
