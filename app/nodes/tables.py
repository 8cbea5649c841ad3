"""The tables of nodes."""

from __future__ import annotations

import sqlalchemy as sa

from app.kit.sql import Sealed, metadata

TIME = sa.String(32)
NODE = sa.String(63)

nodes = sa.Table(
    "nodes",
    metadata,
    sa.Column("name", NODE, primary_key=True),
    sa.Column("side", sa.String(8), nullable=False),
    sa.Column("token_hash", sa.String(64), nullable=False),
    sa.Column("created_at", TIME, nullable=False),
    sa.Column("address", sa.String(255), nullable=False),
    sa.Column("version", sa.String(32), nullable=False),
    sa.Column("last_seen_at", TIME),
    sa.Column("report", sa.Text, nullable=False),
    sa.Column("access", sa.Text, nullable=False, server_default="{}"),
)
"""access: who may use it and its cameras, as Grants.to_json."""
orders = sa.Table(
    "node_orders",
    metadata,
    sa.Column("node", NODE, primary_key=True),
    sa.Column("kind", sa.String(63), primary_key=True),
    sa.Column("uid", sa.String(36), primary_key=True),
    sa.Column("part", sa.String(32), primary_key=True),
    sa.Column("seq", sa.Integer, nullable=False, unique=True),
    sa.Column("namespace", sa.String(63), nullable=False),
    sa.Column("name", sa.String(253), nullable=False),
    sa.Column("operation", sa.String(8), nullable=False),
    sa.Column("generation", sa.Integer, nullable=False),
    sa.Column("content", Sealed(), nullable=False),
    sa.Column("is_acknowledged", sa.Boolean, nullable=False),
    sa.Index("ix_node_orders_kind_uid", "kind", "uid"),
)
"""content: it names the secrets of services. An order whose key is lost goes: it is given anew."""
order_numbers = sa.Table(
    "node_order_numbers",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sqlite_autoincrement=True,
)
"""Where the numbers of orders come from: each only once, also when orders are deleted."""
