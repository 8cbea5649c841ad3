"""The tables of video."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.sql import Sealed, metadata, new_secret

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
    sa.Column("no_signal_since", TIME),
    sa.Column("progress", sa.Float, nullable=False),
    sa.Column("report_seq", sa.Integer, nullable=False),
    sa.Column("reported_at", TIME),
    sa.Column("asked", sa.Integer, nullable=False),
    sa.Column("memory", sa.Text, nullable=False),
    sa.Column("claimed_at", TIME),
    sa.Column("due_at", TIME),
    sa.Column("is_open", sa.Boolean, nullable=False, index=True),
)
"""The columns are those of VideoJob and of StoredJob, where they are explained."""
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
rules = sa.Table(
    "video_rules",
    metadata,
    sa.Column("uid", UID, primary_key=True),
    sa.Column("rule_set", sa.Text, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
)
"""See RuleSet and EvaluationState."""
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
"""See Decided. plan: empty where the last one stayed."""
stages = sa.Table(
    "video_stages",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("owner", sa.String(32), nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("stage", sa.Text, nullable=False),
    sa.Column("allowed", sa.Text, nullable=False, server_default="null"),
)
"""The catalogue, of the installation: see StoredStage. stage: with its models pinned; allowed: as
AccessRule.to_json."""
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
