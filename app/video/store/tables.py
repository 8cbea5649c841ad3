"""The tables of video, and their rows as values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from app.kit.sql import Sealed, metadata, new_secret
from app.kit.sql.rows import from_row, row_of
from app.kit.text.plain_text import json_text
from app.video.model.constraint import read_constraint
from app.video.model.dag import read_dag
from app.video.model.job import Ending, JobState, Mode, RestartPolicy, VideoJob
from app.video.model.kinds import Stage
from app.video.model.plan import Plan

TIME = sa.String(32)
UID = sa.String(64)

numbers = sa.Table(
    "video_numbers",
    metadata,
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=True),
    sqlite_autoincrement=True,
)
"""Of jobs: GLOBAL_ID_<number>. None is given out twice, not even after a restart."""
jobs = sa.Table(
    "video_jobs",
    metadata,
    sa.Column("uid", UID, primary_key=True),
    sa.Column("number", sa.Integer, nullable=False, index=True),
    sa.Column("owner", sa.String(32), nullable=False, index=True),
    sa.Column("name", sa.String(200), nullable=False, server_default=""),
    sa.Column("node", sa.String(63), nullable=False, index=True),
    sa.Column("video_id", sa.String(64), nullable=False),
    sa.Column("mode", sa.String(16), nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("ended_at", TIME),
    sa.Column("state", sa.String(16), nullable=False, index=True),
    sa.Column("ending", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("runner_trouble", sa.Text, nullable=False, server_default=""),
    sa.Column("cannot_run", sa.Boolean, nullable=False, server_default=sa.false()),
    sa.Column("silence", sa.Text, nullable=False, server_default=""),
    sa.Column("policy", sa.String(128), nullable=False),
    sa.Column("realtime", sa.Boolean, nullable=False),
    sa.Column("restart_policy", sa.String(16), nullable=False),
    sa.Column("secret", Sealed(new_secret), nullable=False),
    sa.Column("dag", sa.Text, nullable=False),
    sa.Column("stages", sa.Text, nullable=False),
    sa.Column("user_constraint", sa.Text, nullable=False),
    sa.Column("plan_seq", sa.Integer, nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
    sa.Column("plan_result", sa.Text, nullable=False),
    sa.Column("generator_output", sa.Text, nullable=False),
    sa.Column("results", sa.Text, nullable=False),
    sa.Column("n_loop", sa.Integer, nullable=False),
    sa.Column("flags", sa.Text, nullable=False),
    sa.Column("broadcast", sa.Text, nullable=False, server_default="{}"),
    sa.Column("no_signal_since", TIME),
    sa.Column("progress", sa.Float, nullable=False),
    sa.Column("report_seq", sa.Integer, nullable=False),
    sa.Column("reported_at", TIME),
    sa.Column("asked", sa.Integer, nullable=False),
    sa.Column("memory", sa.Text, nullable=False),
    sa.Column("claimed_at", TIME),
    sa.Column("due_at", TIME),
    sa.Column("is_open", sa.Boolean, nullable=False, index=True),
    sa.Column("set_id", sa.String(36), nullable=False, server_default="", index=True),
    sa.Index(
        "uq_video_jobs_set_id_node_video_id",
        "set_id",
        "node",
        "video_id",
        unique=True,
        sqlite_where=sa.text("set_id <> '' AND ended_at IS NULL"),
        # The same in PostgreSQL, where the migration says it: said here, every process would load that dialect.
    ),
)
"""The columns are those of VideoJob and of StoredJob, where they are explained; reason without the troubles."""
job_sets = sa.Table(
    "video_job_sets",
    metadata,
    sa.Column("set_id", sa.String(36), primary_key=True),
    sa.Column("owner", sa.String(32), nullable=False, index=True),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("selector", sa.Text, nullable=False),
    sa.Column("video_id", sa.String(64), nullable=False),
    sa.Column("submission", sa.Text, nullable=False),
    sa.Column("problem", sa.Text, nullable=False),
)
"""See JobSet."""
events = sa.Table(
    "video_events",
    metadata,
    sa.Column("event_id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("uid", UID, nullable=False, index=True),
    sa.Column("at", TIME, nullable=False),
    sa.Column("type", sa.String(16), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
)
"""See JobEvent."""
decisions = sa.Table(
    "video_decisions",
    metadata,
    sa.Column("decision_id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("uid", UID, nullable=False, index=True),
    sa.Column("at", TIME, nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("policy", sa.String(128), nullable=False),
    sa.Column("why", sa.String(32), nullable=False),
    sa.Column("outcome", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("took_ms", sa.Float, nullable=False),
    sa.Column("inputs_hash", sa.String(64), nullable=False),
    sa.Column("plan", sa.Text, nullable=False),
)
"""See Decided. plan: empty if the last one stayed."""
stages = sa.Table(
    "video_stages",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("owner", sa.String(32), nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("stage", sa.Text, nullable=False),
    sa.Column("allowed", sa.Text, nullable=False, server_default="null"),
    sa.Column("problem", sa.Text, nullable=False, server_default=""),
)
"""The catalog, of the installation: see StoredStage. stage: with its models pinned; allowed: as AccessRule.to_json."""
measurements = sa.Table(
    "video_measurements",
    metadata,
    sa.Column("node", sa.String(63), primary_key=True),
    sa.Column("stage", sa.String(64), primary_key=True),
    sa.Column("model", sa.String(64), primary_key=True),
    sa.Column("resolution", sa.String(16), primary_key=True),
    sa.Column("model_id", sa.Integer, nullable=False),
    sa.Column("delay_s", sa.Float, nullable=False),
    sa.Column("bytes", sa.Float, nullable=False),
    sa.Column("quality", sa.Float, nullable=False),
    sa.Column("frames", sa.Integer, nullable=False),
    sa.Column("at", TIME, nullable=False),
)
"""model: the variant's files as model_of names them; empty for a stage without models."""


JSON = frozenset(
    {"dag", "stages", "user_constraint", "plan", "plan_result", "generator_output", "results", "flags", "broadcast"}
    | {"memory"}
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


def job_of_row(row: sa.Row[Any]) -> StoredJob:
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
        reason="\n".join(filter(None, (row.reason, row.runner_trouble, row.silence))),
        plan=Plan.from_json(plan) if plan else None,
        plan_result=read(row.plan_result),
        results=tuple(read(row.results)),
        flags=tuple(read(row.flags)),
        broadcast=read(row.broadcast),
        memory=read(row.memory),
        generator_output=read(row.generator_output),
    )
    return from_row(StoredJob, row, job=job, is_open=bool(row.is_open))


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
        generator_output=json_text(job.generator_output),
        results=json_text(list(job.results)),
        flags=json_text(list(job.flags)),
        broadcast=json_text(dict(job.broadcast)),
        memory=json_text(job.memory),
    )
