"""Errors of running stages."""

from __future__ import annotations

from app.kit.errors import ModelmillError, Unavailable


class StageHung(ModelmillError, status=504, code="STAGE_HUNG", can_retry=True):
    """It has not answered in the time that it may take, and its process was ended."""


class StageDied(ModelmillError, status=502, code="STAGE_DIED", can_retry=True):
    """The process that computed it has ended."""


class StagePaused(Unavailable, code="STAGE_PAUSED"):
    """It has ended its processes several times, and rests."""


class NoDecoder(ModelmillError, status=415, code="NO_DECODER"):
    """This node cannot read that kind of picture."""
