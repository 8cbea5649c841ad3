"""How a run in the sandbox ends without its result. Conversion's stages run there, hence the codes."""

from __future__ import annotations

from app.kit.errors import ModelmillError


class StageFailed(ModelmillError):
    """A stage ended without its output. message is the reason the user reads."""

    code = "STAGE_FAILED"


class StageCrashed(StageFailed):
    code = "STAGE_CRASHED"


class StageOutOfMemory(StageFailed):
    code = "STAGE_OUT_OF_MEMORY"


class StageTimedOut(StageFailed):
    code = "STAGE_TIMED_OUT"


class StageCancelled(StageFailed):
    code = "CANCELLED"
