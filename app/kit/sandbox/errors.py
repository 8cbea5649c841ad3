"""How a child process ends without a result: a sandbox run, which computes a stage of a conversion, or the process of
a video stage. Hence the codes."""

from __future__ import annotations

from app.kit.errors import ModelmillError


class StageFailed(ModelmillError):
    """A stage ended without its output. The message is the reason that users read."""

    code = "STAGE_FAILED"


class StageCrashed(StageFailed):
    """The child ended by a signal, or without a result."""

    code = "STAGE_CRASHED"


class StageOutOfMemory(StageFailed):
    """It wanted more memory than it may have."""

    code = "STAGE_OUT_OF_MEMORY"


class StageOutOfDisk(StageFailed):
    """It stored more than it may in its work folder."""

    code = "STAGE_OUT_OF_DISK"


class StageTimedOut(StageFailed):
    """It took longer than it may."""

    code = "STAGE_TIMED_OUT"


class StageCancelled(StageFailed):
    """Whoever started it does not want it any more."""

    code = "CANCELLED"
