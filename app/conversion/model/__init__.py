"""The job: its record, its statuses, the one transition table. Pure: no clock, no Redis, no framework."""

from app.conversion.model.changes import (
    CANCELLED,
    Change,
    cancelled,
    claimed,
    failed,
    given_back,
    live_fields,
    succeeded,
)
from app.conversion.model.fields import from_fields, to_fields
from app.conversion.model.record import (
    TERMINAL,
    TRANSITIONS,
    Artifact,
    Event,
    JobError,
    JobRecord,
    Stage,
    StageRecord,
    StageState,
    Status,
    Verdict,
    submitted,
    to_json,
)

__all__ = [
    "CANCELLED",
    "TERMINAL",
    "TRANSITIONS",
    "Artifact",
    "Change",
    "Event",
    "JobError",
    "JobRecord",
    "Stage",
    "StageRecord",
    "StageState",
    "Status",
    "Verdict",
    "cancelled",
    "claimed",
    "failed",
    "from_fields",
    "given_back",
    "live_fields",
    "submitted",
    "succeeded",
    "to_fields",
    "to_json",
]
