"""The SQL store of services, their events, and their newest hard samples. Everything runs in the caller's transactions.
Each change of a service gets the next version, so that watchers see changes in one order."""

from app.joint_inference.store.drift import drift_of, drifts_of, forget_drift, put_drift
from app.joint_inference.store.edges import put_report, reports_of, take_numbers
from app.joint_inference.store.events import ServiceEvent, add_event, events_of
from app.joint_inference.store.samples import content_type_of, put_sample, samples_of
from app.joint_inference.store.services import (
    LastingProblem,
    NameTaken,
    ServiceFilter,
    add_service,
    by_name,
    by_uid,
    change_service,
    count_by_state,
    every,
    figures,
    find_last_look,
    forget,
    list_changed,
    list_gone_before,
    lock,
    looked_at_before,
    newest_version,
    not_settled,
    note_look,
    of_this_name,
    page,
    problems_of,
    put_problems,
    selecting,
    there_for,
    there_with_models_of,
    there_with_text,
    uids,
)
