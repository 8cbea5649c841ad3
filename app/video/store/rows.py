"""Rows as values, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.kit.sql.rows import from_row, row_of
from app.kit.text.json_text import json_text
from app.video.model.constraint import read_constraint
from app.video.model.dag import read_dag
from app.video.model.job import Ending, JobState, Mode, RestartPolicy, VideoJob
from app.video.model.kinds import Stage
from app.video.model.plan import Plan
from app.video.store.tables import jobs

JSON = frozenset(
    {"dag", "stages", "user_constraint", "plan", "plan_result", "generator_output", "results", "flags", "memory"}
)
"""Columns that hold texts of JSON."""


@dataclass(frozen=True)
class StoredJob:
    """A job as it is stored, with what only scheduler and controller need."""

    job: VideoJob
    number: int
    """Of its uid: GLOBAL_ID_<number>."""
    plan_seq: int = 0
    """The newest number that was given out; greater than the plan's own while one is being made."""
    report_seq: int = 0
    """Of the newest report that was stored."""
    asked: int = 0
    """Number of the runner's newest request for a plan."""
    claimed_at: str | None = None
    """When plan_seq was given out."""
    due_at: str | None = None
    """When the next plan may be made, if a call waits for that."""
    is_open: bool = True
    """The controller has to do with it: also when it is DONE and its node has not been told."""
    generator_output: Mapping[str, Any] = field(default_factory=dict)
    """What the runner said of its newest frame: see GeneratorInfo."""


def job_of_row(row: Any) -> StoredJob:
    read = json.loads
    plan = read(row.plan)
    job = from_row(
        VideoJob,
        row,
        dag=read_dag(read(row.dag)),
        stages=tuple(map(Stage.from_json, read(row.stages))),
        constraint=read_constraint(read(row.user_constraint)),
        restart_policy=RestartPolicy(row.restart_policy),
        mode=Mode(row.mode),
        realtime=bool(row.realtime),
        state=JobState(row.state),
        ending=Ending(row.ending) if row.ending else None,
        plan=Plan.from_json(plan) if plan else None,
        plan_result=read(row.plan_result),
        results=tuple(read(row.results)),
        flags=tuple(read(row.flags)),
        memory=read(row.memory),
    )
    return from_row(StoredJob, row, job=job, is_open=bool(row.is_open), generator_output=read(row.generator_output))


def columns_of(stored: StoredJob) -> dict[str, Any]:
    job = stored.job
    return row_of(
        jobs,
        job,
        stored,
        mode=job.mode.value,
        state=job.state.value,
        ending=job.ending.value if job.ending else "",
        restart_policy=job.restart_policy.value,
        dag=json_text(job.dag.to_json()),
        stages=json_text([stage.to_json() for stage in job.stages]),
        user_constraint=json_text(job.constraint.to_json()),
        plan=json_text(job.plan.to_json() if job.plan else None),
        plan_result=json_text(job.plan_result),
        generator_output=json_text(stored.generator_output),
        results=json_text(list(job.results)),
        flags=json_text(list(job.flags)),
        memory=json_text(job.memory),
    )
