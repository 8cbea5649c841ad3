"""The job: its record, its statuses, the one transition table. Pure: no clock, no Redis, no framework."""

from app.conversion.model.changes import (
    CANCELLED,
    Change,
    applied,
    cancelled,
    claimed,
    failed,
    given_back,
    live_fields,
    succeeded,
    with_artifacts,
)
from app.conversion.model.fields import ARTIFACT, artifact_fields, edit_fields, from_fields, to_fields
from app.conversion.model.origin import TASK, model_origin
from app.conversion.model.record import (
    SNR_DB_MIN,
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
