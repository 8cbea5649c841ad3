"""Nodes and their orders; models by name; joint inference: services, their events, samples and calibrations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "nodes",
        sa.Column("name", sa.String(63), nullable=False),
        sa.Column("side", sa.String(8), nullable=False),
        sa.Column("token_hash", sa.String(64), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("address", sa.String(255), nullable=False),
        sa.Column("version", sa.String(32), nullable=False),
        sa.Column("last_seen_at", sa.String(32), nullable=True),
        sa.Column("report", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_nodes")),
    )
    op.create_table(
        "node_orders",
        sa.Column("node", sa.String(63), nullable=False),
        sa.Column("kind", sa.String(63), nullable=False),
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("part", sa.String(32), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("name", sa.String(253), nullable=False),
        sa.Column("operation", sa.String(8), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("content", sa.Text(), nullable=False),
        sa.Column("is_acknowledged", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("node", "kind", "uid", "part", name=op.f("pk_node_orders")),
        sa.UniqueConstraint("seq", name=op.f("uq_node_orders_seq")),
    )
    op.create_index(op.f("ix_node_orders_kind_uid"), "node_orders", ["kind", "uid"])
    op.create_table(
        "node_order_numbers",
        sa.Column("seq", sa.Integer(), autoincrement=True, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_node_order_numbers")),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "models",
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("card", sa.Text(), nullable=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("twin_sha256", sa.String(64), nullable=False),
        sa.Column("job_id", sa.String(36), nullable=False),
        sa.Column("facts", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("owner", "name", name=op.f("pk_models")),
    )
    op.create_index(op.f("ix_models_created_at"), "models", ["created_at"])
    op.create_index(op.f("ix_models_sha256"), "models", ["sha256"])
    op.create_index(op.f("ix_models_twin_sha256"), "models", ["twin_sha256"])
    op.create_table(
        "joint_services",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("namespace", sa.String(63), nullable=False),
        sa.Column("name", sa.String(253), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("deleted_at", sa.String(32), nullable=True),
        sa.Column("gone_at", sa.String(32), nullable=True),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("annotations", sa.Text(), nullable=False),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("secret", sa.String(64), nullable=False),
        sa.Column("reported", sa.Text(), nullable=False),
        sa.Column("looked_at", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_joint_services")),
    )
    op.create_index(op.f("ix_joint_services_gone_at"), "joint_services", ["gone_at"])
    op.create_index(op.f("ix_joint_services_looked_at"), "joint_services", ["looked_at"])
    op.create_index(op.f("ix_joint_services_namespace_name"), "joint_services", ["namespace", "name"])
    op.create_index(op.f("ix_joint_services_version"), "joint_services", ["version"])
    op.create_index(
        op.f("uq_joint_services_owner_namespace_name"),
        "joint_services",
        ["owner", "namespace", "name"],
        unique=True,
        sqlite_where=sa.text("gone_at IS NULL"),
        postgresql_where=sa.text("gone_at IS NULL"),
    )
    op.create_table(
        "joint_versions",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_joint_versions")),
    )
    op.create_table(
        "joint_events",
        sa.Column("event_id", sa.Integer(), autoincrement=True, nullable=False),
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("type", sa.String(16), nullable=False),
        sa.Column("reason", sa.String(64), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_joint_events")),
    )
    op.create_index(op.f("ix_joint_events_uid"), "joint_events", ["uid"])
    op.create_table(
        "joint_samples",
        sa.Column("uid", sa.String(36), nullable=False),
        sa.Column("sample_id", sa.String(64), nullable=False),
        sa.Column("at", sa.String(32), nullable=False),
        sa.Column("sample", sa.Text(), nullable=False),
        sa.Column("content_type", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("uid", "sample_id", name=op.f("pk_joint_samples")),
    )
    op.create_table(
        "joint_calibrations",
        sa.Column("calibration_id", sa.String(36), nullable=False),
        sa.Column("owner", sa.String(32), nullable=False),
        sa.Column("created_at", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("progress", sa.Integer(), nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("calibration_id", name=op.f("pk_joint_calibrations")),
    )
    op.create_index(op.f("ix_joint_calibrations_created_at"), "joint_calibrations", ["created_at"])
    op.create_index(op.f("ix_joint_calibrations_owner"), "joint_calibrations", ["owner"])
    op.execute("INSERT INTO joint_versions (id, version) VALUES (1, 1)")


def downgrade() -> None:
    for table in (
        "joint_calibrations",
        "joint_samples",
        "joint_events",
        "joint_versions",
        "joint_services",
        "models",
        "node_order_numbers",
        "node_orders",
        "nodes",
    ):
        op.drop_table(table)
