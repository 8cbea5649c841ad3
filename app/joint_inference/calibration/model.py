"""A calibration: what was asked for and how far it is. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

TIME_S = 1800.0
"""So long both models may take for all samples."""
LOST_AFTER = timedelta(seconds=2 * TIME_S)
"""Of one that has not ended by then nobody will bring an end."""


class State(StrEnum):
    WAITING = "WAITING"
    RUNNING = "RUNNING"
    READY = "READY"
    FAILED = "FAILED"


@dataclass(frozen=True)
class CalibrationRequest:
    """namespace, name: of the service; what it says of models and workers is taken when the calibration runs.

    set_name, set_bytes: of the file with the samples.
    """

    namespace: str
    name: str
    edge_model: str
    cloud_model: str
    set_name: str
    set_bytes: int

    def to_json(self) -> dict[str, Any]:
        return dict(vars(self))

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> CalibrationRequest:
        return CalibrationRequest(**data)


@dataclass(frozen=True)
class Calibration:
    """progress: 0..100. error: of a FAILED one, as ModelmillError.to_dict has it."""

    calibration_id: str
    owner: str
    created_at: str
    state: State
    asked: CalibrationRequest
    progress: int = 0
    error: Mapping[str, Any] = field(default_factory=dict)

    @property
    def has_ended(self) -> bool:
        return self.state in (State.READY, State.FAILED)

    def is_lost(self, now: datetime) -> bool:
        return not self.has_ended and now - datetime.fromisoformat(self.created_at) > LOST_AFTER
