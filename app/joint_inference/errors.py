"""Errors of services and calibrations."""

from __future__ import annotations

from app.kit.errors import BadInput, Conflict, NotFound


class ServiceNotFound(NotFound, code="SERVICE_NOT_FOUND"): ...


class ServiceExists(Conflict, code="SERVICE_EXISTS"): ...


class ServiceChanged(Conflict, code="SERVICE_CHANGED"):
    """It is not of the resourceVersion any more that was to be changed."""


class FieldConflict(Conflict, code="FIELD_CONFLICT"):
    """Server-side apply of a field that another manager has set otherwise. detail: {"conflicts": [{manager, field}]}"""


class InvalidResource(BadInput, code="INVALID_RESOURCE"):
    """detail: {"problems": [{"path": "$.spec.edgeWorker.name", "message": …}, …]}, the first of them in the message."""


class ModelUnfetched(InvalidResource):
    """There is no file of a Model of Sedna, or none that can be registered."""


class NoSuchRollout(Conflict, code="NO_SUCH_ROLLOUT"):
    """There is no roll-out, or none with which that can be done."""


class SampleNotFound(NotFound, code="SAMPLE_NOT_FOUND"): ...


class CalibrationNotFound(NotFound, code="CALIBRATION_NOT_FOUND"): ...


class BadSamples(BadInput, code="BAD_SAMPLES"): ...


class NoReference(BadInput, code="NO_REFERENCE"):
    """Drift cannot be measured against so few objects."""


class NotReady(Conflict, code="CALIBRATION_NOT_READY"):
    """It has not ended yet, or it failed."""
