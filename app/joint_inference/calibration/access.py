"""What the pages of calibrations need of a request."""

from __future__ import annotations

from app.joint_inference.calibration.service import Calibrations
from app.kit.web.state import FromContainer

calibrations_of = FromContainer[Calibrations]("calibrations")
