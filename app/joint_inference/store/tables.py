"""The tables of joint inference."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.sql import Sealed, metadata, new_secret

TIME = sa.String(32)
UID = sa.String(36)

services = sa.Table(
    "joint_services",
    metadata,
    sa.Column("uid", UID, primary_key=True),
    sa.Column("owner", sa.String(32), nullable=False),
    sa.Column("namespace", sa.String(63), nullable=False),
    sa.Column("name", sa.String(253), nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False, index=True),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("deleted_at", TIME),
    sa.Column("gone_at", TIME, index=True),
    sa.Column("labels", sa.Text, nullable=False),
    sa.Column("annotations", sa.Text, nullable=False),
    sa.Column("spec", sa.Text, nullable=False),
    sa.Column("status", sa.Text, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("secret", Sealed(new_secret), nullable=False),
    sa.Column("reported", sa.Text, nullable=False),
    sa.Column("managed", sa.Text, nullable=False, server_default="[]"),
    sa.Column("rollout", sa.Text, nullable=False, server_default="{}"),
    sa.Column("problems", sa.Text, nullable=False, server_default="{}"),
    sa.Column("looked_at", TIME, nullable=False, index=True),
    sa.Index(
        "uq_joint_services_owner_namespace_name",
        "owner",
        "namespace",
        "name",
        unique=True,
        sqlite_where=sa.text("gone_at IS NULL"),
        # The same in PostgreSQL, where the migration says it: said here, every process would load that dialect.
    ),
    sa.Index("ix_joint_services_namespace_name", "namespace", "name"),
)
"""state: type of the current condition, for lists. problems: see LastingProblem. A service that is gone stays for a
while, for those who watch."""
versions = sa.Table(
    "joint_versions",
    metadata,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
)
"""One row: the newest resourceVersion. Whoever changes a service takes the next in the same transaction."""
events = sa.Table(
    "joint_events",
    metadata,
    sa.Column("event_id", sa.Integer, primary_key=True, autoincrement=True),
    sa.Column("uid", UID, nullable=False, index=True),
    sa.Column("at", TIME, nullable=False),
    sa.Column("type", sa.String(16), nullable=False),
    sa.Column("reason", sa.String(64), nullable=False),
    sa.Column("message", sa.Text, nullable=False),
)
"""Each change of the current condition."""
samples = sa.Table(
    "joint_samples",
    metadata,
    sa.Column("uid", UID, primary_key=True),
    sa.Column("sample_id", sa.String(64), primary_key=True),
    sa.Column("at", TIME, nullable=False),
    sa.Column("sample", sa.Text, nullable=False),
    sa.Column("content_type", sa.String(32), nullable=False),
)
edges = sa.Table(
    "joint_edges",
    metadata,
    sa.Column("uid", UID, primary_key=True),
    sa.Column("node", sa.String(63), primary_key=True),
    sa.Column("reported", sa.Text, nullable=False, server_default="{}"),
    sa.Column("number", sa.Integer, nullable=False, server_default="0"),
    sa.Column("run", sa.String(64), nullable=False, server_default=""),
    sa.Column("batch", sa.Integer, nullable=False, server_default="0"),
)
"""The edge workers of services. reported: the last taskInfo, where a service has several. number: of the newest row of
the service that is from there. run, batch: of the newest rows that were taken in, see store.take_numbers."""
drifts = sa.Table(
    "joint_drifts",
    metadata,
    sa.Column("uid", UID, primary_key=True),
    sa.Column("drift", sa.Text, nullable=False),
)
"""drift: reference, threshold, and the last measurement."""
calibrations = sa.Table(
    "joint_calibrations",
    metadata,
    sa.Column("calibration_id", UID, primary_key=True),
    sa.Column("owner", sa.String(32), nullable=False, index=True),
    sa.Column("created_at", TIME, nullable=False, index=True),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("request", sa.Text, nullable=False),
    sa.Column("progress", sa.Integer, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
)
"""request: models, sample set, options. What both models said of each sample lies in the object store."""
