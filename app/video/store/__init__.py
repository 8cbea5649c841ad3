"""The SQL store of video jobs, their events and decisions, the catalog of stages, and profiles. Its only rule is which
state may follow which. Everything runs in the caller's transactions."""

from app.video.store.history import (
    DecisionRecord,
    JobEvent,
    add_decision,
    add_event,
    decisions_of,
    events_of,
    last_decision,
)
from app.video.store.job_sets import add_set, all_sets, forget_set, get_set, jobs_of_set, note_problem
from app.video.store.jobs import (
    InvalidTransition,
    JobFilter,
    UidTaken,
    add_job,
    change,
    change_flags,
    claim_number,
    count_by_state,
    count_unended,
    enter,
    forget,
    get,
    list_ended_before,
    list_unended,
    lock,
    next_number,
    open_uids,
    page,
)
from app.video.store.stages import (
    StoredStage,
    all_stages,
    get_stage,
    measurements,
    put_allowed,
    put_measurements,
    put_stage,
    remove_stage,
)
from app.video.store.tables import StoredJob
