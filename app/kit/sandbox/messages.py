"""What a worker sends to the fork server, and what the supervisor of the run answers, as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from app.kit.text.json_values import JsonObject


class RunLimits(TypedDict):
    """See Limits; disk_bytes is that of the whole work folder."""

    memory_bytes: int
    time_s: float
    threads: int
    disk_bytes: int


class RunRequest(TypedDict):
    target: str
    """`module:function`, called as function(request, progress)."""
    request: JsonObject
    work_dir: str
    limits: RunLimits
    reads: Sequence[str]
    writes: Sequence[str]


class RunOutcome(TypedDict):
    """How a run has ended. If no library could be loaded, it has only `why` and `reason`."""

    why: str
    status: int
    """Exit code of the child, or minus the number of its signal."""
    peak_bytes: int
    cpu_s: float
    wall_s: float
    reason: NotRequired[str]
