"""The tables of nodes and of their orders in SQL, with their queries. The rules are in the service. Everything runs in
the caller's transactions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.kit.sql import Sealed, metadata
from app.kit.sql.rows import first, from_row, insert_new, row_of, upsert
from app.nodes.cameras import CAMERAS
from app.nodes.grants import Grants, read_grants
from app.nodes.model import NODE_REPORT, Node, Operation, Order, Side, WorkKey

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
    sa.Column("labels", sa.Text, nullable=False, server_default="{}"),
)
"""`access`: who may use the node and its cameras, as Grants.to_json."""
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
"""`content` contains the secrets of services. An order whose key is lost is deleted and given again."""
order_numbers = sa.Table(
    "node_order_numbers",
    metadata,
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=True),
    sqlite_autoincrement=True,
)
"""The source of the numbers of orders: each is used only once, also if orders are deleted."""

_IN_TURN = (orders.c.kind, orders.c.uid, orders.c.node, orders.c.part)
"""The order in which several rows are locked, so that no two transactions wait for each other."""


# --- nodes ------------------------------------------------------------------------------------------
def add_node(conn: Connection, node: Node, token_hash: str) -> bool:
    """Adds a node. False: there already is one with this name."""
    report = as_text(NODE_REPORT.write(node.report))
    labels = as_text(node.labels)
    values = row_of(nodes, node, side=node.side.value, token_hash=token_hash, report=report, labels=labels)
    return insert_new(conn, nodes, values)


def change_node(conn: Connection, name: str, **fields: Any) -> bool:
    """Changes side, token_hash, address, version, last_seen_at or report. False: there is no such node."""
    values = {**fields}
    if "report" in values:
        values["report"] = as_text(NODE_REPORT.write(values["report"]))
    return conn.execute(sa.update(nodes).where(nodes.c.name == name).values(**values)).rowcount == 1


def get_node(conn: Connection, name: str) -> Node | None:
    return first(conn, sa.select(nodes).where(nodes.c.name == name), _node_from_row)


def nodes_with_grants(conn: Connection) -> list[tuple[Node, Grants]]:
    """Returns all nodes by name, with their access rules."""
    return [
        (_node_from_row(row), _grants_from_row(row)) for row in conn.execute(sa.select(nodes).order_by(nodes.c.name))
    ]


def grants_of(conn: Connection, name: str) -> tuple[Node, Grants] | None:
    row = conn.execute(sa.select(nodes).where(nodes.c.name == name)).first()
    return (_node_from_row(row), _grants_from_row(row)) if row else None


def put_grants(conn: Connection, name: str, grants: Grants) -> None:
    conn.execute(sa.update(nodes).where(nodes.c.name == name).values(access=as_text(grants.to_json())))


def put_labels(conn: Connection, name: str, labels: Mapping[str, str]) -> None:
    conn.execute(sa.update(nodes).where(nodes.c.name == name).values(labels=as_text(labels)))


def lock_node(conn: Connection, name: str, *, is_removing: bool = False) -> Node | None:
    """Returns a node as get_node does, and locks it: nobody else changes it until the transaction ends.

    Args:
        conn: the caller's transaction.
        name: the name of the node.
        is_removing: nobody else gives it orders either.
    """
    query = sa.select(nodes).where(nodes.c.name == name).with_for_update(key_share=not is_removing)
    return first(conn, query, _node_from_row)


def hold_node(conn: Connection, name: str) -> bool:
    """Returns whether the node exists. It is not deleted until the transaction ends, but may be changed."""
    query = sa.select(nodes.c.name).where(nodes.c.name == name).with_for_update(read=True, key_share=True)
    return conn.execute(query).first() is not None


def all_nodes(conn: Connection) -> list[Node]:
    return [_node_from_row(row) for row in conn.execute(sa.select(nodes).order_by(nodes.c.name))]


def delete_node(conn: Connection, name: str) -> None:
    conn.execute(sa.delete(orders).where(orders.c.node == name))
    conn.execute(sa.delete(nodes).where(nodes.c.name == name))


def token_hash_of(conn: Connection, name: str) -> str | None:
    token_hash: str | None = conn.execute(sa.select(nodes.c.token_hash).where(nodes.c.name == name)).scalar()
    return token_hash


# --- orders -----------------------------------------------------------------------------------------
def next_seq(conn: Connection) -> int:
    """Returns a number that no order ever had. Its row only reserves it."""
    added = conn.execute(sa.insert(order_numbers)).inserted_primary_key
    assert added is not None
    conn.execute(sa.delete(order_numbers).where(order_numbers.c.seq == added[0]))
    return int(added[0])


def put_order(conn: Connection, order: Order) -> None:
    """Stores an order, and replaces the earlier one of its key."""
    values = {
        "node": order.node,
        "kind": order.key.kind,
        "uid": order.key.uid,
        "part": order.key.part,
        "seq": order.seq,
        "namespace": order.namespace,
        "name": order.name,
        "operation": order.operation.value,
        "generation": order.generation,
        "content": as_text(order.content),
        "is_acknowledged": order.is_acknowledged,
    }
    upsert(conn, orders, values)


def get_order(conn: Connection, node: str, key: WorkKey, *, is_locked: bool = False) -> Order | None:
    """Returns the order of this key; None: the node has none.

    Args:
        conn: the caller's transaction.
        node: the name of the node.
        key: the key of the work.
        is_locked: nobody else changes it until the transaction ends.
    """
    c = orders.c
    query = sa.select(orders).where(c.node == node, c.kind == key.kind, c.uid == key.uid, c.part == key.part)
    return first(conn, query.with_for_update() if is_locked else query, _order)


def orders_of(conn: Connection, kind: str, uid: str, *, is_locked: bool = False) -> list[Order]:
    """Returns the orders of a resource by node and part.

    Args:
        conn: the caller's transaction.
        kind: the kind of the resource.
        uid: the id of the resource.
        is_locked: nobody else changes them until the transaction ends.
    """
    query = sa.select(orders).where(orders.c.kind == kind, orders.c.uid == uid).order_by(*_IN_TURN)
    return [_order(row) for row in conn.execute(query.with_for_update() if is_locked else query)]


def orders_of_kind(conn: Connection, kind: str) -> list[Order]:
    """Returns the orders of a kind by node and part."""
    return [_order(row) for row in conn.execute(sa.select(orders).where(orders.c.kind == kind).order_by(*_IN_TURN))]


def lock_orders_on(conn: Connection, node: str, seqs: Collection[int] | None = None) -> list[Order]:
    """Returns the locked orders of this node. `seqs`: only these."""
    query = sa.select(orders).where(orders.c.node == node).order_by(*_IN_TURN)
    if seqs is not None:
        query = query.where(orders.c.seq.in_(seqs))
    return [_order(row) for row in conn.execute(query.with_for_update())]


def pending_on(conn: Connection, node: str) -> list[Order]:
    """Returns the unacknowledged orders of this node by seq."""
    query = sa.select(orders).where(orders.c.node == node, orders.c.is_acknowledged.is_(False))
    return [_order(row) for row in conn.execute(query.order_by(orders.c.seq))]


def count_pending(conn: Connection) -> int:
    return int(conn.execute(sa.select(sa.func.count()).where(~orders.c.is_acknowledged)).scalar_one())


def keys_on(conn: Connection, node: str) -> set[WorkKey]:
    query = sa.select(orders.c.kind, orders.c.uid, orders.c.part).where(orders.c.node == node)
    return {WorkKey(*row) for row in conn.execute(query)}


def work_on(conn: Connection, node: str, standing: Collection[str]) -> list[str]:
    """Returns the names of what the node has to run; deletions, its cameras and orders of these kinds do not count."""
    is_work = (orders.c.operation != Operation.DELETE.value) & orders.c.kind.not_in({CAMERAS, *standing})
    query = sa.select(orders.c.name).where(orders.c.node == node, is_work).distinct().order_by(orders.c.name)
    return list(conn.execute(query).scalars())


def acknowledge(conn: Connection, seqs: Collection[int]) -> None:
    conn.execute(sa.update(orders).where(orders.c.seq.in_(seqs)).values(is_acknowledged=True))


def forget(conn: Connection, seqs: Collection[int]) -> None:
    conn.execute(sa.delete(orders).where(orders.c.seq.in_(seqs)))


def contents_on(conn: Connection, node: str) -> list[Mapping[str, Any]]:
    """Returns the contents of all orders of this node."""
    return [
        json.loads(text) for text in conn.execute(sa.select(orders.c.content).where(orders.c.node == node)).scalars()
    ]


def _node_from_row(row: Row[Any]) -> Node:
    report = NODE_REPORT.read(json.loads(row.report))
    return from_row(Node, row, side=Side(row.side), report=report, labels=json.loads(row.labels))


def _grants_from_row(row: Row[Any]) -> Grants:
    return read_grants(json.loads(row.access))


def _order(row: Row[Any]) -> Order:
    return from_row(
        Order,
        row,
        key=WorkKey(row.kind, row.uid, row.part),
        operation=Operation(row.operation),
        content=json.loads(row.content),
        is_acknowledged=bool(row.is_acknowledged),
    )


def as_text(data: Mapping[str, Any]) -> str:
    """Canonical JSON: equal data give equal texts."""
    return json.dumps(data, allow_nan=False, sort_keys=True)
