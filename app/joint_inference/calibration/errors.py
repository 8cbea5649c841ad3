"""What can be wrong with a calibration."""

from __future__ import annotations

from app.kit.errors import BadInput, Conflict


class BadSamples(BadInput):
    code = "BAD_SAMPLES"


class NotReady(Conflict):
    """It has not ended yet, or it failed."""

    code = "CALIBRATION_NOT_READY"
