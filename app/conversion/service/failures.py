"""Whose fault a failure is, and what became of earlier jobs that failed alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from app.conversion import object_keys
from app.conversion.model import CANCELLED, JobError, JobRecord, Status
from app.conversion.service import Conversion
from app.conversion.service.comparison import differing_options

NEWEST = 200
"""Number of jobs to compare with."""
FACTS = ("opset", "producer", "nodes")
"""Facts of the model that a new export changes."""


class Blame(StrEnum):
    """Who can fix it."""

    YOURS = "yours"
    """The model, the pictures or the options."""
    TOOL = "tool"
    """The toolchain failed on a valid input."""
    OURS = "ours"
    """This product."""
    MACHINE = "machine"
    """Memory, disk, time, or a part that this installation lacks."""


MACHINE_CODES = frozenset(
    {
        "STAGE_OUT_OF_MEMORY",
        "STAGE_OUT_OF_DISK",
        "STAGE_TIMED_OUT",
        "WORK_DISK_FULL",
        "TOOLCHAIN_MISSING",
        "WORKER_LOST",
        "STORE_UNAVAILABLE",
        "STORE_FULL",
        "STORE_REFUSED",
        "SANDBOX_BUSY",
    }
)
TOOL_CODES = frozenset({"TOOLCHAIN_FAILED", "STAGE_FAILED", "STAGE_CRASHED"})
YOUR_CODES = ("MODEL_", "IMAGES_", "STAGE_NOT_FINITE", "BAD_INPUT")


@dataclass(frozen=True)
class OptionChange:
    """An option, or a fact about the model, of the failed job and of the successful one."""

    name: str
    before: Any
    after: Any


@dataclass(frozen=True)
class Remedy:
    """A successful job of the same model, and the differences."""

    job: JobRecord
    changes: tuple[OptionChange, ...]


@dataclass(frozen=True)
class EarlierFailures:
    count: int
    """Other jobs of this user with the same failure."""
    remedy: Remedy | None


def blame_of(error: JobError) -> Blame:
    if error.code in MACHINE_CODES:
        return Blame.MACHINE
    if error.code in TOOL_CODES:
        return Blame.TOOL
    return Blame.YOURS if error.code.startswith(YOUR_CODES) else Blame.OURS


def earlier_failures(conversion: Conversion, record: JobRecord) -> EarlierFailures | None:
    """None for a job that has not failed, and for one that was ended without a fault."""
    if record.error is None or record.error.code == CANCELLED:
        return None
    own = [job for job in conversion.jobs.store.newest(NEWEST) if job.owner == record.owner]
    return alike(record, own)


def alike(record: JobRecord, jobs: Iterable[JobRecord]) -> EarlierFailures:
    """Pure.

    Args:
        record: A job that failed.
        jobs: Those of its user, newest first; itself may be among them.
    """
    others = [job for job in jobs if job.job_id != record.job_id]
    failed = [job for job in others if job.error and _make_signature(job.error) == _make_signature(record.error)]
    family = [record, *failed]
    passed = [job for job in others if job.status is Status.COMPLETED and any(_is_kin(job, one) for one in family)]
    return EarlierFailures(len(failed), _find_remedy(family, passed))


def _make_signature(error: JobError | None) -> tuple[Any, ...]:
    if error is None:
        return ()
    where = tuple(str(error.detail.get(name, "")) for name in ("node", "operator"))
    return error.code, error.step, *where, "" if any(where) else error.reason


def _is_kin(one: JobRecord, other: JobRecord) -> bool:
    """Whether it is the same model, or one with the same name."""
    same = [job.artifacts[object_keys.MODEL].sha256 for job in (one, other) if object_keys.MODEL in job.artifacts]
    return (len(same) == 2 and same[0] == same[1]) or (one.name != "" and one.name == other.name)


def _find_remedy(family: Sequence[JobRecord], passed: Sequence[JobRecord]) -> Remedy | None:
    for job in passed:
        nearest = next(one for one in family if _is_kin(job, one))
        changes = (*_list_model_changes(nearest, job), *_list_option_changes(nearest, job))
        if changes:
            return Remedy(job, changes)
    return None


def _list_option_changes(before: JobRecord, after: JobRecord) -> list[OptionChange]:
    return [OptionChange(one.name, one.a, one.b) for one in differing_options(before.options, after.options)]


def _list_model_changes(before: JobRecord, after: JobRecord) -> list[OptionChange]:
    first, second = ((job.intake.get("model") or {}) for job in (before, after))
    return [
        OptionChange(name, first.get(name), second.get(name))
        for name in FACTS
        if first.get(name) is not None and second.get(name) is not None and first[name] != second[name]
    ]
