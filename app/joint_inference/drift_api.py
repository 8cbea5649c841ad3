"""The JSON API of the watch over the drift of a service. OPERATIONS is its table of routes."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, Field, model_validator
from starlette.requests import Request
from starlette.responses import Response

from app.joint_inference.access import drift_of, read_service_name
from app.joint_inference.model.drift import THRESHOLD, Drift, DriftMeasurement, DriftReference
from app.joint_inference.responses import NAMED, SERVICES
from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations
from app.kit.web.strict import Moment, Strict

_ONE = f"{SERVICES}/{{namespace}}/{{name}}/drift"
OPERATIONS = Operations(NAMED)


class DriftBody(Strict):
    """Either calibration_id, or since and until."""

    calibration_id: Annotated[str, Field(max_length=36)] = ""
    """Compare with the samples of this calibration."""
    since: Moment | None = None
    """Compare with the rows from this time on, with its offset from UTC, such as 2026-11-20T00:00:00Z."""
    until: Moment | None = None
    """Compare with the rows before this time."""
    threshold: Annotated[float, Field(gt=0, le=100)] = THRESHOLD
    """Population stability index of scores or classes above which there is drift."""

    @model_validator(mode="after")
    def _is_one_reference(self) -> Self:
        window = (self.since is not None, self.until is not None)
        if window != (not self.calibration_id,) * 2:
            raise ValueError("give either calibration_id, or since and until")
        return self


class DriftAnswer(BaseModel):
    reference: DriftReference | None
    """scores of the distribution: objects in ten bins from 0 to 1; classes: objects by class. Null: the service is not
    watched."""
    threshold: float | None
    measured: DriftMeasurement | None
    """scores, classes: population stability index, null with fewer than 100 objects."""


@OPERATIONS.get(
    _ONE, "Get the drift of a service from its reference", DriftAnswer, version_fields=("reference", "threshold")
)
def get_drift(request: Request) -> Response:
    return json_answer(_build_answer(drift_of(request).get(user_of(request), *read_service_name(request))))


@OPERATIONS.put(
    _ONE, "Watch a service for drift, compared with a calibration or a period", DriftAnswer, more_errors=(409,)
)
def watch_drift(request: Request, body: DriftBody) -> Response:
    return json_answer(_build_answer(watch(request, body)))


@OPERATIONS.delete(_ONE, "Stop watching a service for drift")
def stop_drift(request: Request) -> Response:
    drift_of(request).stop(user_of(request), *read_service_name(request))
    return Response(status_code=204)


def watch(request: Request, body: DriftBody) -> Drift:
    """Start the watch that a body describes. Raises as DriftMonitor."""
    monitor, user, service = drift_of(request), user_of(request), read_service_name(request)
    if body.calibration_id:
        return monitor.watch_calibration(user, *service, body.calibration_id, body.threshold, now=now())
    assert body.since is not None and body.until is not None
    return monitor.watch_window(user, *service, body.since, body.until, body.threshold, now=now())


def _build_answer(drift: Drift | None) -> DriftAnswer:
    if drift is None:
        return DriftAnswer(reference=None, threshold=None, measured=None)
    return DriftAnswer(reference=drift.reference, threshold=drift.threshold, measured=drift.measured)
