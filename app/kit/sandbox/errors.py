"""How a child process ends without a result: a sandbox run, which computes a stage of a conversion, or the process of
a video stage. Hence the codes."""

from __future__ import annotations

from app.kit.errors import ModelmillError


class StageFailed(ModelmillError, code="STAGE_FAILED"):
    """A stage ended without its output. The message is the reason that users read."""


class StageCrashed(StageFailed, code="STAGE_CRASHED"):
    """The child ended by a signal, or without a result."""


class StageOutOfMemory(StageFailed, code="STAGE_OUT_OF_MEMORY"):
    """It wanted more memory than it may have."""


class StageOutOfDisk(StageFailed, code="STAGE_OUT_OF_DISK"):
    """It stored more than it may in its work folder."""


class StageTimedOut(StageFailed, code="STAGE_TIMED_OUT"):
    """It took longer than it may."""


class StageCancelled(StageFailed, code="CANCELLED"):
    """Its starter does not need it any more."""
