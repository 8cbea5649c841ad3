"""The verbs of nodes: register, report, order, acknowledge."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection

from app.kit.access import Member
from app.kit.clock import to_text
from app.kit.sql import Database
from app.nodes import store
from app.nodes.errors import BadNodeName, NodeBusy, NodeExists, NodeNotFound
from app.nodes.grants import Grants, seen_by
from app.nodes.model import NAME, OFFLINE_AFTER_S, Node, NodeReport, Operation, Order, Side, WorkKey
from app.nodes.service import orders
from app.nodes.service.tokens import new_secret, parts_of, token_text

_NAME = re.compile(NAME)
T = TypeVar("T")
RESERVED = ("new",)
"""A page has this name."""


class Hashing(Protocol):
    def hash(self, secret: str) -> str: ...
    def agrees(self, secret: str, known_hash: str) -> bool: ...


Nudge = Callable[[str], None]
"""Tell whoever watches the node of this name that there are orders for it."""
OnKeys = Callable[[str, Collection[WorkKey]], None]
"""The node of this name, which has these orders, got a new token, for another machine perhaps; or others may use it.
Called outside of any transaction."""
Note = Callable[[Connection, str, str, str, dict[str, Any]], None]
OnChange = Callable[[Node, Collection[WorkKey]], None]
"""A node came, went, or reports other things of these workers, or offers others than before. Called outside of any
transaction."""


@dataclass(frozen=True)
class NodeListeners:
    """Who hears of what happens to nodes."""

    changed: Sequence[OnChange] = ()
    replaced: Sequence[OnKeys] = ()
    permitted: Sequence[OnKeys] = ()


MemberOf = Callable[[str], Member]
"""The user of this name, as lists of who may use a thing see them."""


class Nodes:
    """note: write a line of the audit, in the transaction: by whom, what, to what, details."""

    def __init__(
        self,
        database: Database,
        keeper: Hashing,
        nudge: Nudge,
        *,
        member_of: MemberOf = Member,
        note: Note = lambda *_: None,
        listeners: NodeListeners | None = None,
    ) -> None:
        self.database = database
        self.keeper = keeper
        self.nudge = nudge
        self.member_of = member_of
        self.note = note
        self.listeners = listeners or NodeListeners()
        self._looked_at: datetime | None = None

    # who they are
    def register(self, name: str, side: Side, *, now: datetime, replace: bool = False) -> tuple[Node, str]:
        """The node and its token, which is shown only now. replace: a node of this name gets a new token and keeps its
        orders, with other secrets: who had the old token may still have the old ones.

        Raises BadNodeName, NodeExists.
        """
        if _NAME.fullmatch(name) is None or name in RESERVED:
            raise BadNodeName(
                f"{name!r} is no name for a node.",
                hint="It has 1 to 63 small letters, digits, '-' and '.', begins and ends with a letter or a digit, and "
                "is not 'new'.",
            )
        secret = new_secret()
        node, token_hash = Node(name, side, to_text(now)), self.keeper.hash(secret)
        kept: set[WorkKey] | None = None
        with self.database.write() as conn:
            if not store.add_node(conn, node, token_hash):
                if not replace:
                    raise NodeExists(
                        f"There is a node {name!r} already.", hint="Give it a new token, or choose another name."
                    )
                store.change_node(conn, name, side=side.value, token_hash=token_hash)
                node = store.get_node(conn, name) or node
                kept = store.keys_on(conn, name)
        if kept is not None:
            for listen in self.listeners.replaced:
                listen(name, kept)
        self.nudge(name)
        return node, token_text(name, secret)

    def authenticate(self, token: str) -> str | None:
        """Name of the node whose token this is."""
        parts = parts_of(token)
        if parts is None:
            return None
        name, secret = parts
        with self.database.read() as conn:
            known_hash = store.token_hash_of(conn, name)
        if known_hash is None:
            self.keeper.hash(secret)  # takes as long as for one that exists
            return None
        return name if self.keeper.agrees(secret, known_hash) else None

    def find(self, name: str) -> Node | None:
        with self.database.read() as conn:
            return store.get_node(conn, name)

    def get(self, name: str) -> Node:
        """Raises NodeNotFound."""
        return _there(self.find(name), name)

    def all(self) -> list[Node]:
        """By name."""
        with self.database.read() as conn:
            return store.all_nodes(conn)

    # who may use them
    def seen_by(self, user: str) -> list[Node]:
        """By name, those that this user may use, without cameras that they may not."""
        member = self.member_of(user)
        with self.database.read() as conn:
            found = store.granted(conn)
        return [seen for node, grants in found if (seen := seen_by(member, node, grants)) is not None]

    def find_for(self, user: str, name: str) -> Node | None:
        """As seen_by."""
        member = self.member_of(user)
        with self.database.read() as conn:
            found = store.grants_of(conn, name)
        return seen_by(member, *found) if found else None

    def get_for(self, user: str, name: str) -> Node:
        """Raises NodeNotFound, also for one that they may not use."""
        return _there(self.find_for(user, name), name)

    def hidden_from(self, user: str, name: str) -> dict[str, list[str]]:
        """Cameras of this node that are not for this user, of those that are narrowed; of no such node none."""
        member = self.member_of(user)
        with self.database.read() as conn:
            found = store.grants_of(conn, name)
        return found[1].hidden(member) if found else {}

    def grants(self, name: str) -> Grants:
        """Raises NodeNotFound."""
        with self.database.read() as conn:
            _, found = _there(store.grants_of(conn, name), name)
        return found

    def permit(self, name: str, grants: Grants, *, by: str) -> None:
        """From now on these may use it; its listeners end what of others' runs there. Raises NodeNotFound."""
        with self.database.write() as conn:
            _there(store.lock_node(conn, name), name)
            store.put_grants(conn, name, grants)
            self.note(conn, by, "node.access", f"node:{name}", grants.to_json())
            keys = store.keys_on(conn, name)
        for listen in self.listeners.permitted:
            listen(name, keys)

    def remove(self, name: str) -> None:
        """Forget it, its token and its orders. Raises NodeNotFound, NodeBusy while anything is to run there."""
        with self.database.write() as conn:
            node = _there(store.lock_node(conn, name, is_removing=True), name)
            if store.has_work(conn, name):
                raise NodeBusy(
                    f"Something is to run on the node {name!r}.",
                    hint="Delete it, or move it to another node, and remove this one then.",
                )
            keys = store.keys_on(conn, name) | _keys(node)
            store.delete_node(conn, name)
        self.nudge(name)
        self._tell(node, keys)

    def census(self, conn: Connection) -> tuple[list[Node], int]:
        """All of them, and how many orders they have not stored."""
        return store.all_nodes(conn), store.count_pending(conn)

    # what they say
    def report(self, name: str, report: NodeReport, *, address: str, version: str, now: datetime) -> None:
        """A sign of life. Listeners hear of what is different in the workers and in what the node offers (without a
        key), and of a node that was offline.

        Raises NodeNotFound.
        """
        with self.database.write() as conn:
            former = _there(store.lock_node(conn, name), name)
            store.change_node(conn, name, report=report, address=address, version=version, last_seen_at=to_text(now))
            node = _there(store.get_node(conn, name), name)
            is_back = not former.is_online(now) or former.address != address
            keys = _keys(former) | _keys(node) | store.keys_on(conn, name) if is_back else _changed(former, node)
        if is_back or keys or former.report.offers != node.report.offers:
            self._tell(node, keys)

    def look_for_changes(self, now: datetime) -> None:
        """Tell listeners of nodes that have become silent. Is called every few seconds by one process.

        What has been told is known to this process alone: another that takes over tells it again.
        """
        with self.database.read() as conn:
            fallen = [node for node in store.all_nodes(conn) if self._has_fallen_silent(node, now)]
            told = [(node, _keys(node) | store.keys_on(conn, node.name)) for node in fallen]
        for node, keys in told:
            self._tell(node, keys)
        self._looked_at = now

    def _has_fallen_silent(self, node: Node, now: datetime) -> bool:
        if node.last_seen_at is None or node.is_online(now):
            return False
        silent_at = datetime.fromisoformat(node.last_seen_at) + timedelta(seconds=OFFLINE_AFTER_S)
        return self._looked_at is None or silent_at > self._looked_at

    # what they are told
    def order(
        self,
        conn: Connection,
        node: str,
        key: WorkKey,
        *,
        namespace: str,
        name: str,
        generation: int,
        content: Mapping[str, Any],
    ) -> bool:
        """What is to run: insert, or update where the node had another content. The same again changes nothing.

        Runs in the caller's transaction; who commits calls `nudge`. True: it is new. Raises NodeNotFound.
        """
        return orders.put(conn, Order(0, node, key, namespace, name, Operation.INSERT, generation, content))

    def withdraw(self, conn: Connection, kind: str, uid: str, part: str | None = None, *, but: str = "") -> list[str]:
        """Let the workers of a resource end, wherever they are, but on the node named `but`. Names of the nodes that
        must hear of it. A delete stays until its node has acknowledged it."""
        return orders.withdraw(conn, kind, uid, part, but)

    def orders_of(self, conn: Connection, kind: str, uid: str) -> list[Order]:
        """Deletes that are not acknowledged are among them."""
        return store.orders_of(conn, kind, uid)

    def orders_of_kind(self, conn: Connection, kind: str) -> list[Order]:
        """Of all resources of a kind; deletes that are not acknowledged are among them."""
        return store.orders_of_kind(conn, kind)

    def pending(self, name: str) -> list[Order]:
        """What the node has not acknowledged, by seq."""
        with self.database.read() as conn:
            return store.pending_on(conn, name)

    def acknowledge(self, name: str, seqs: Collection[int]) -> None:
        """It has stored these. Acknowledged deletes are forgotten; listeners hear of them. Unknown: ignored."""
        if not seqs:
            return
        with self.database.write() as conn:
            ended = orders.acknowledge(conn, name, seqs)
            node = store.get_node(conn, name)
        if ended and node is not None:
            self._tell(node, ended)

    def synchronise(self, name: str, known: Mapping[str, int]) -> None:
        """known: what the node has, str(key) → seq. What it lacks becomes pending again, and what it should not have is
        withdrawn. Is called whenever a node connects; listeners hear of all that is there. Raises NodeNotFound."""
        with self.database.write() as conn:
            node = _there(store.lock_node(conn, name), name)
            orders.synchronise(conn, name, known)
            keys = _keys(node) | store.keys_on(conn, name)
        self._tell(node, keys)

    def may_read(self, name: str, sha256: str) -> bool:
        """Does any order of this node name this file?"""
        with self.database.read() as conn:
            contents = store.contents_on(conn, name)
        return any(orders.names_file(content, sha256) for content in contents)

    def _tell(self, node: Node, keys: Collection[WorkKey]) -> None:
        for listen in self.listeners.changed:
            listen(node, keys)


def _there(found: T | None, name: str) -> T:
    if found is None:
        raise NodeNotFound(f"There is no node {name!r}.", hint="The page of nodes has their names.")
    return found


def _keys(node: Node) -> set[WorkKey]:
    return {worker.key for worker in node.report.workers}


def _changed(former: Node, node: Node) -> set[WorkKey]:
    """Workers that are new, gone, or no longer as they were."""
    before, after = ({worker.key: worker for worker in one.report.workers} for one in (former, node))
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
