"""Rows as values, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from app.kit.text.json_text import json_text
from app.video.model.constraint import read_constraint
from app.video.model.dag import read_dag
from app.video.model.job import Ending, JobState, Mode, RestartPolicy, VideoJob
from app.video.model.kinds import Stage
from app.video.model.plan import Plan

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
    job = VideoJob(
        uid=row.uid,
        owner=row.owner,
        node=row.node,
        video_id=row.video_id,
        dag=read_dag(read(row.dag)),
        stages=tuple(map(Stage.from_json, read(row.stages))),
        constraint=read_constraint(read(row.user_constraint)),
        policy=row.policy,
        restart_policy=RestartPolicy(row.restart_policy),
        created_at=row.created_at,
        mode=Mode(row.mode),
        realtime=bool(row.realtime),
        state=JobState(row.state),
        ending=Ending(row.ending) if row.ending else None,
        reason=row.reason,
        ended_at=row.ended_at,
        plan=Plan.from_json(plan) if plan else None,
        plan_result=read(row.plan_result),
        results=tuple(read(row.results)),
        n_loop=row.n_loop,
        flags=tuple(read(row.flags)),
        no_signal_since=row.no_signal_since,
        reported_at=row.reported_at,
        memory=read(row.memory),
        secret=row.secret,
        progress=row.progress,
        name=row.name,
    )
    return StoredJob(
        job,
        row.number,
        row.plan_seq,
        row.report_seq,
        row.asked,
        row.claimed_at,
        row.due_at,
        bool(row.is_open),
        read(row.generator_output),
    )


def columns_of(stored: StoredJob) -> dict[str, Any]:
    job = stored.job
    return {
        "uid": job.uid,
        "number": stored.number,
        "owner": job.owner,
        "name": job.name,
        "node": job.node,
        "video_id": job.video_id,
        "mode": job.mode.value,
        "created_at": job.created_at,
        "ended_at": job.ended_at,
        "state": job.state.value,
        "ending": job.ending.value if job.ending else "",
        "reason": job.reason,
        "policy": job.policy,
        "realtime": job.realtime,
        "restart_policy": job.restart_policy.value,
        "secret": job.secret,
        "dag": json_text(job.dag.to_json()),
        "stages": json_text([stage.to_json() for stage in job.stages]),
        "user_constraint": json_text(job.constraint.to_json()),
        "plan_seq": stored.plan_seq,
        "plan": json_text(job.plan.to_json() if job.plan else None),
        "plan_result": json_text(job.plan_result),
        "generator_output": json_text(stored.generator_output),
        "results": json_text(list(job.results)),
        "n_loop": job.n_loop,
        "flags": json_text(list(job.flags)),
        "no_signal_since": job.no_signal_since,
        "progress": job.progress,
        "report_seq": stored.report_seq,
        "reported_at": job.reported_at,
        "asked": stored.asked,
        "memory": json_text(job.memory),
        "claimed_at": stored.claimed_at,
        "due_at": stored.due_at,
        "is_open": stored.is_open,
    }
