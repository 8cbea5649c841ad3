"""Remembers video jobs, their events and decisions, the catalogue of stages and what was measured of them, in SQL.
Knows no rules but which state may follow which. All runs in the caller's transactions."""

from app.video.store.decisions import Decided, add_decision, decisions_of, last_decision
from app.video.store.events import Event, add_event, events_of
from app.video.store.jobs import (
    InvalidTransition,
    JobFilter,
    UidTaken,
    add_job,
    change,
    claim_number,
    count_by_state,
    count_unended,
    ended_before,
    enter,
    forget,
    get,
    lock,
    next_number,
    open_uids,
    page,
    unended,
)
from app.video.store.measurements import measurements, put_measurements
from app.video.store.rows import StoredJob
from app.video.store.stages import StoredStage, all_stages, get_stage, put_allowed, put_stage, remove_stage

__all__ = [
    "Decided",
    "Event",
    "InvalidTransition",
    "JobFilter",
    "StoredJob",
    "StoredStage",
    "UidTaken",
    "add_decision",
    "add_event",
    "add_job",
    "all_stages",
    "change",
    "claim_number",
    "count_by_state",
    "count_unended",
    "decisions_of",
    "ended_before",
    "enter",
    "events_of",
    "forget",
    "get",
    "get_stage",
    "last_decision",
    "lock",
    "measurements",
    "next_number",
    "open_uids",
    "page",
    "put_allowed",
    "put_measurements",
    "put_stage",
    "remove_stage",
    "unended",
]
