"""Errors of sweeps."""

from __future__ import annotations

from app.kit.errors import BadInput, NotFound, TooMany


class SweepNotFound(NotFound, code="SWEEP_NOT_FOUND"): ...


class SweepTooLarge(BadInput, code="SWEEP_TOO_LARGE"):
    """It would be more jobs than one sweep may have."""


class TooManySweeps(TooMany, code="TOO_MANY_SWEEPS", can_retry=False): ...
