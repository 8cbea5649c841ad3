"""What the pages of calibrations need of a request."""

from __future__ import annotations

from starlette.requests import Request

from app.joint_inference.calibration.service import Calibrations


def calibrations_of(request: Request) -> Calibrations:
    found = request.app.state.calibrations
    assert isinstance(found, Calibrations)
    return found
