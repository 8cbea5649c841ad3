"""Errors of running stages."""

from __future__ import annotations

from app.kit.errors import ModelmillError, Unavailable


class StageHung(ModelmillError):
    """It has not answered in the time that it may take, and its process was ended."""

    status = 504
    code = "STAGE_HUNG"
    can_retry = True


class StageDied(ModelmillError):
    """The process that computed it has ended."""

    status = 502
    code = "STAGE_DIED"
    can_retry = True


class StagePaused(Unavailable):
    """It has ended its processes several times, and rests."""

    code = "STAGE_PAUSED"


class NoDecoder(ModelmillError):
    """This node cannot read that kind of picture."""

    status = 415
    code = "NO_DECODER"
