"""Errors of services and calibrations."""

from __future__ import annotations

from app.kit.errors import BadInput, Conflict, NotFound


class ServiceNotFound(NotFound):
    code = "SERVICE_NOT_FOUND"


class ServiceExists(Conflict):
    code = "SERVICE_EXISTS"


class ServiceChanged(Conflict):
    """It is not of the resourceVersion any more that was to be changed."""

    code = "SERVICE_CHANGED"


class FieldConflict(Conflict):
    """Server-side apply of a field that another manager has set otherwise. detail: {"conflicts": [{manager, field}]}"""

    code = "FIELD_CONFLICT"


class InvalidResource(BadInput):
    """detail: {"problems": [{"path": "$.spec.edgeWorker.name", "message": …}, …]}, the first of them in the message."""

    code = "INVALID_RESOURCE"


class NoSuchRollout(Conflict):
    """There is no roll-out, or none with which that can be done."""

    code = "NO_SUCH_ROLLOUT"


class SampleNotFound(NotFound):
    code = "SAMPLE_NOT_FOUND"


class CalibrationNotFound(NotFound):
    code = "CALIBRATION_NOT_FOUND"


class BadSamples(BadInput):
    code = "BAD_SAMPLES"


class NoReference(BadInput):
    """Drift cannot be measured against so few objects."""

    code = "NO_REFERENCE"


class NotReady(Conflict):
    """It has not ended yet, or it failed."""

    code = "CALIBRATION_NOT_READY"
