"""The orders of nodes, from the first insert to the acknowledged deletion. In the caller's transactions.

Each key has one order, the newest, with its own number. Nodes acknowledge numbers: an acknowledgement of a replaced
order has no effect.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from app.nodes import store
from app.nodes.errors import NodeNotFound
from app.nodes.model import Operation, Order, WorkKey


def put(conn: Connection, order: Order) -> bool:
    """Stores an order under a new number. False: the node already has the same one."""
    if not store.hold_node(conn, order.node):
        raise NodeNotFound(f"There is no node {order.node!r}.")
    former = store.get_order(conn, order.node, order.key, is_locked=True)
    if former is not None and former.operation is not Operation.DELETE and _content_of(former) == _content_of(order):
        return False
    store.put_order(
        conn, replace(order, seq=store.next_seq(conn), operation=_choose_operation(former), is_acknowledged=False)
    )
    return True


def _content_of(order: Order) -> tuple[Any, ...]:
    return order.namespace, order.name, order.generation, store.as_text(order.content)


def _choose_operation(former: Order | None) -> Operation:
    """Returns INSERT for new work, UPDATE after an acknowledged content, else the earlier operation."""
    if former is None or former.operation is Operation.DELETE:
        return Operation.INSERT
    return Operation.UPDATE if former.is_acknowledged else former.operation


def withdraw(conn: Connection, kind: str, uid: str, part: str | None, but: Collection[str]) -> list[str]:
    """See `Nodes.withdraw`."""
    withdrawn = [
        order
        for order in store.orders_of(conn, kind, uid, is_locked=True)
        if order.operation is not Operation.DELETE and order.node not in but and part in (None, order.key.part)
    ]
    for order in withdrawn:
        deletion = replace(
            order, seq=store.next_seq(conn), operation=Operation.DELETE, content={}, is_acknowledged=False
        )
        store.put_order(conn, deletion)
    return sorted({order.node for order in withdrawn})


def acknowledge(conn: Connection, name: str, seqs: Collection[int]) -> set[WorkKey]:
    """Records acknowledged orders. Returns the keys of the deletions among them, which are removed."""
    orders = store.lock_orders_on(conn, name, seqs)
    done = [order for order in orders if order.operation is Operation.DELETE]
    store.acknowledge(conn, [order.seq for order in orders if order.operation is not Operation.DELETE])
    store.forget(conn, [order.seq for order in done])
    return {order.key for order in done}


def synchronise(conn: Connection, name: str, stored_seqs: Mapping[str, int]) -> None:
    """See Nodes.synchronise. Deletions are kept: the node acknowledges them whether it had the work or not."""
    orders = store.lock_orders_on(conn, name)
    for order in orders:
        if order.operation is Operation.DELETE:
            continue
        seq = stored_seqs.get(str(order.key))
        operation = Operation.INSERT if seq is None else order.operation
        updated = replace(order, operation=operation, is_acknowledged=seq == order.seq)
        if updated != order:
            store.put_order(conn, updated)
    for key in sorted(set(stored_seqs) - {str(order.key) for order in orders}):
        unknown = Order(0, name, WorkKey(*key.split("/")), "", "", Operation.DELETE, 0, {})
        store.put_order(conn, replace(unknown, seq=store.next_seq(conn)))


def names_file(content: Any, sha256: str) -> bool:
    """Returns whether a content names this file, under a key …sha256. Users' texts under other keys do not count."""
    return sha256 in _iterate_files(content)


def _iterate_files(content: Any) -> Iterator[Any]:
    inner = content.items() if isinstance(content, Mapping) else enumerate(content)
    for key, value in inner:
        if isinstance(value, Mapping | list):
            yield from _iterate_files(value)
        elif isinstance(key, str) and key.endswith("sha256"):
            yield value
