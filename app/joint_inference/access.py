"""Request dependencies shared by all endpoints of joint inference."""

from __future__ import annotations

from starlette.requests import Request

from app.joint_inference.calibration.drift_monitor import DriftMonitor
from app.joint_inference.calibration.service import Calibrations
from app.joint_inference.service import Joint
from app.kit.web.state import FromContainer

joint_of = FromContainer[Joint]("joint")
drift_of = FromContainer[DriftMonitor]("drift")
calibrations_of = FromContainer[Calibrations]("calibrations")


def read_service_name(request: Request) -> tuple[str, str]:
    """Namespace and name of the service in the request's path."""
    return request.path_params["namespace"], request.path_params["name"]
