"""What a node is told, from the first insert to the delete that it has acknowledged. In the caller's transactions.

Of a key there is one order, the newest, under a number of its own. What the node acknowledges is a number: one that has
been replaced meanwhile says nothing any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection

from app.nodes import store
from app.nodes.errors import NodeNotFound
from app.nodes.model import Operation, Order, WorkKey


def put(conn: Connection, wanted: Order) -> bool:
    """wanted: without its number and its operation. False: the node is told the same already. Raises NodeNotFound."""
    if not store.hold_node(conn, wanted.node):
        raise NodeNotFound(f"There is no node {wanted.node!r}.")
    former = store.lock_order(conn, wanted.node, wanted.key)
    if former is not None and former.operation is not Operation.DELETE and _what(former) == _what(wanted):
        return False
    store.put_order(
        conn, replace(wanted, seq=store.next_seq(conn), operation=_operation(former), is_acknowledged=False)
    )
    return True


def _what(order: Order) -> tuple[Any, ...]:
    return order.namespace, order.name, order.generation, store.as_text(order.content)


def _operation(former: Order | None) -> Operation:
    """Update where the node has acknowledged a content that it still has to have."""
    if former is None or former.operation is Operation.DELETE:
        return Operation.INSERT
    return Operation.UPDATE if former.is_acknowledged else former.operation


def withdraw(conn: Connection, kind: str, uid: str, part: str | None, but: str) -> list[str]:
    """Names of the nodes for which that is new."""
    withdrawn = [
        order
        for order in store.orders_of(conn, kind, uid, is_locked=True)
        if order.operation is not Operation.DELETE and order.node != but and part in (None, order.key.part)
    ]
    for order in withdrawn:
        store.put_order(conn, _deletion(order, store.next_seq(conn)))
    return sorted({order.node for order in withdrawn})


def acknowledge(conn: Connection, name: str, seqs: Collection[int]) -> set[WorkKey]:
    """Keys of the deletes among them, which are forgotten."""
    found = store.lock_orders_on(conn, name, seqs)
    done = [order for order in found if order.operation is Operation.DELETE]
    store.acknowledge(conn, [order.seq for order in found if order.operation is not Operation.DELETE])
    store.forget(conn, [order.seq for order in done])
    return {order.key for order in done}


def synchronise(conn: Connection, name: str, known: Mapping[str, int]) -> None:
    """A delete stays: whether the node never had the work or has ended it, it will say so when it is told."""
    found = store.lock_orders_on(conn, name)
    for order in found:
        if order.operation is Operation.DELETE:
            continue
        seq = known.get(str(order.key))
        operation = Operation.INSERT if seq is None else order.operation
        seen = replace(order, operation=operation, is_acknowledged=seq == order.seq)
        if seen != order:
            store.put_order(conn, seen)
    for key in sorted(set(known) - {str(order.key) for order in found}):
        unknown = Order(0, name, WorkKey(*key.split("/")), "", "", Operation.DELETE, 0, {})
        store.put_order(conn, replace(unknown, seq=store.next_seq(conn)))


def names_file(content: Any, sha256: str) -> bool:
    """Is this file named where files are named, under a key …sha256? A user's own words elsewhere name nothing."""
    return sha256 in _files(content)


def _files(content: Any) -> Iterator[Any]:
    inner = content.items() if isinstance(content, Mapping) else enumerate(content)
    for key, value in inner:
        if isinstance(value, Mapping | list):
            yield from _files(value)
        elif isinstance(key, str) and key.endswith("sha256"):
            yield value


def _deletion(order: Order, seq: int) -> Order:
    return replace(order, seq=seq, operation=Operation.DELETE, content={}, is_acknowledged=False)
