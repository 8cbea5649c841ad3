"""The operations on nodes: register, report, order, acknowledge."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection

from app.kit import clock
from app.kit.access import Member
from app.kit.clock import to_text
from app.kit.sql import Database
from app.nodes import store
from app.nodes.errors import BadNodeName, NodeBusy, NodeExists
from app.nodes.model import NAME, OFFLINE_AFTER_S, Node, NodeReport, Operation, Order, Side, WorkKey
from app.nodes.service import orders
from app.nodes.service.cameras import NodeCameras
from app.nodes.service.certificates import Certificates
from app.nodes.service.contract import MemberOf, NodeListeners, Note, Notify, SecretHasher
from app.nodes.service.node_access import NodeAccess, require_node

_NAME = re.compile(NAME)
_TOKEN = re.compile(r"mn_([-a-z0-9.]{1,63})_([0-9a-f]{64})")
"""mn_<name>_<secret>: names of nodes have no underscore."""
T = TypeVar("T")
NAMED_WORK = 5
"""Of the work of a node that cannot be removed, so many are named."""
RESERVED = ("new",)
"""Names of pages."""
OVERDUE_S = OFFLINE_AFTER_S / 3
"""Seconds before a node counts as silent from which it is checked more often."""


class Nodes:
    """The registered nodes, their reports and their orders.

    Attributes:
        access: the access of users.
        cameras: the cameras that administrators added.
        certificates: the certificates by which nodes recognize each other.
    """

    def __init__(
        self,
        database: Database,
        hasher: SecretHasher,
        notify: Notify,
        *,
        member_of: MemberOf = Member,
        note: Note = lambda *_: None,
        listeners: NodeListeners | None = None,
        secret_key: str = "",
    ) -> None:
        """
        Args:
            database: where nodes and orders are stored.
            hasher: hashes the secrets of tokens.
            notify: called after a node's orders have changed.
            member_of: gives a user's groups.
            note: writes an entry of the audit log in the transaction: by whom, what, to what, details.
            secret_key: the installation's, from which the key of the certificate authority is derived.
        """
        self.database = database
        self.hasher = hasher
        self.notify = notify
        self.listeners = listeners or NodeListeners()
        self.access = NodeAccess(database, member_of=member_of, note=note, permitted=self.listeners.permitted)
        self.cameras = NodeCameras(database, notify, note)
        self.certificates = Certificates(database, secret_key)
        self._looked_at: datetime | None = None

    # registration
    def register(self, name: str, side: Side, *, now: datetime, replace: bool = False) -> tuple[Node, str]:
        """Adds a node.

        Args:
            name: the name of the node.
            side: whether it is at the edge or in the cloud.
            now: the current time.
            replace: an existing node of this name gets a new token and keeps its orders, with other secrets: the holder
                of the old token may still have the old ones.

        Returns:
            The node and its token, which is shown only now.

        Raises:
            BadNodeName: A node cannot have this name.
            NodeExists: There is one of this name, and it is not replaced.
        """
        if _NAME.fullmatch(name) is None or name in RESERVED:
            raise BadNodeName(
                f"{name!r} is no name for a node.",
                hint="It has 1 to 63 small letters, digits, '-' and '.', begins and ends with a letter or a digit, and "
                "is not 'new'.",
            )
        secret = secrets.token_hex(32)
        node, token_hash = Node(name, side, to_text(now)), self.hasher.hash(secret)
        replaced_keys: set[WorkKey] | None = None
        with self.database.write() as conn:
            if not store.add_node(conn, node, token_hash):
                if not replace:
                    raise NodeExists(
                        f"There is a node {name!r} already.", hint="Give it a new token, or choose another name."
                    )
                store.change_node(conn, name, side=side.value, token_hash=token_hash)
                self.certificates.revoke(conn, name, now=now)
                node = store.get_node(conn, name) or node
                replaced_keys = store.keys_on(conn, name)
        if replaced_keys is not None:
            self.listeners.tell_replaced(name, replaced_keys)
        self.notify(name)
        return node, f"mn_{name}_{secret}"

    def authenticate(self, token: str) -> str | None:
        """Returns the name of the node with this token; None: no node has it."""
        match = _TOKEN.fullmatch(token)
        if match is None:
            return None
        name, secret = match[1], match[2]
        with self.database.read() as conn:
            token_hash = store.token_hash_of(conn, name)
        if token_hash is None:
            self.hasher.hash(secret)  # it takes as long as for an existing node
            return None
        return name if self.hasher.agrees(secret, token_hash) else None

    def find(self, name: str) -> Node | None:
        with self.database.read() as conn:
            return store.get_node(conn, name)

    def get(self, name: str) -> Node:
        return require_node(self.find(name), name)

    def all(self) -> list[Node]:
        """Returns all nodes by name."""
        with self.database.read() as conn:
            return store.all_nodes(conn)

    def remove(self, name: str) -> None:
        """Deletes a node, its token and its orders.

        Raises:
            NodeNotFound: There is none.
            NodeBusy: It has work.
        """
        with self.database.write() as conn:
            node = require_node(store.lock_node(conn, name, is_removing=True), name)
            self._refuse_busy(conn, name)
            keys = store.keys_on(conn, name) | node.worker_keys
            store.delete_node(conn, name)
            self.certificates.revoke(conn, name, now=clock.now())
        self.notify(name)
        self.listeners.tell_changed(node, keys)

    def require_idle(self, name: str) -> None:
        """Checks that a node can be removed.

        Raises:
            NodeBusy: It has work.
        """
        with self.database.read() as conn:
            self._refuse_busy(conn, name)

    def _refuse_busy(self, conn: Connection, name: str) -> None:
        if work := store.work_on(conn, name, self.listeners.standing):
            named = ", ".join(work[:NAMED_WORK])
            further = f" and {len(work) - NAMED_WORK} more" if len(work) > NAMED_WORK else ""
            raise NodeBusy(
                f"The node {name!r} is to run {named}{further}.",
                hint="Delete it, or move it to another node, and remove this one then.",
                detail={"work": named, "count": len(work)},
            )

    def all_with_pending(self, conn: Connection) -> tuple[list[Node], int]:
        """Returns all nodes, and the number of unacknowledged orders."""
        return store.all_nodes(conn), store.count_pending(conn)

    # reports
    def report(self, name: str, report: NodeReport, *, address: str, version: str, now: datetime) -> None:
        """Stores a heartbeat. Listeners are called with changed workers, for changed offers or sinks, and with all
        work of a node that was offline, or that can store something no more, or again.

        Args:
            name: the name of the node.
            report: its state.
            address: the address at which other machines reach its workers.
            version: the version of its agent.
            now: the current time.

        Raises:
            NodeNotFound: There is no such node.
        """
        with self.database.write() as conn:
            former = require_node(store.lock_node(conn, name), name)
            store.change_node(conn, name, report=report, address=address, version=version, last_seen_at=to_text(now))
            node = require_node(store.get_node(conn, name), name)
            is_other = not former.is_online(now) or former.address != address
            is_other |= former.report.storage_problems != report.storage_problems
            keys = (
                former.worker_keys | node.worker_keys | store.keys_on(conn, name)
                if is_other
                else node.workers_changed_since(former)
            )
        is_other |= (former.report.offers, former.report.sinks) != (node.report.offers, node.report.sinks)
        if is_other or keys:
            self.listeners.tell_changed(node, keys)

    def look_for_changes(self, now: datetime) -> bool:
        """Calls the listeners for nodes that have become silent. One process should call it every few seconds.

        Only this process knows which nodes it has announced: one that takes over announces them again.

        Returns:
            Whether a report is overdue, so that a node may become silent within OVERDUE_S.
        """
        with self.database.read() as conn:
            nodes = store.all_nodes(conn)
            silent = [node for node in nodes if self._has_fallen_silent(node, now)]
            changes = [(node, node.worker_keys | store.keys_on(conn, node.name)) for node in silent]
        for node, keys in changes:
            self.listeners.tell_changed(node, keys)
        self._looked_at = now
        soon = now + timedelta(seconds=OVERDUE_S)
        return any(node.is_online(now) and not node.is_online(soon) for node in nodes)

    def _has_fallen_silent(self, node: Node, now: datetime) -> bool:
        if node.last_seen_at is None or node.is_online(now):
            return False
        silent_at = datetime.fromisoformat(node.last_seen_at) + timedelta(seconds=OFFLINE_AFTER_S)
        return self._looked_at is None or silent_at > self._looked_at

    # orders
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
        """Orders work from a node: an insert, or an update if the node had another content.

        Runs in the caller's transaction; the caller calls `notify` after its commit.

        Args:
            conn: the caller's transaction.
            node: the name of the node.
            key: the key of the work.
            namespace: the namespace of the resource.
            name: the name of the resource.
            generation: the generation of the resource.
            content: the content for the kind's driver on the node.

        Returns:
            Whether it is new; the same order again changes nothing.

        Raises:
            NodeNotFound: There is no such node.
        """
        return orders.put(conn, Order(0, node, key, namespace, name, Operation.INSERT, generation, content))

    def withdraw(
        self, conn: Connection, kind: str, uid: str, part: str | None = None, *, but: Collection[str] = ()
    ) -> list[str]:
        """Ends the workers of a resource. A deletion is kept until its node has acknowledged it.

        Args:
            conn: the caller's transaction.
            kind: the kind of the resource.
            uid: the id of the resource.
            part: ends only these workers; None: all.
            but: the nodes whose workers continue.

        Returns:
            The names of the nodes to notify.
        """
        return orders.withdraw(conn, kind, uid, part, but)

    def orders_of(self, conn: Connection, kind: str, uid: str) -> list[Order]:
        """Returns the orders of a resource, including unacknowledged deletions."""
        return store.orders_of(conn, kind, uid)

    def orders_of_kind(self, conn: Connection, kind: str) -> list[Order]:
        """Returns the orders of all resources of a kind, including unacknowledged deletions."""
        return store.orders_of_kind(conn, kind)

    def pending(self, name: str) -> list[Order]:
        """Returns the orders that the node has not acknowledged, by seq."""
        with self.database.read() as conn:
            return store.pending_on(conn, name)

    def acknowledge(self, name: str, seqs: Collection[int]) -> None:
        """Records that the node has stored these orders. Acknowledged deletions are removed and passed to listeners."""
        if not seqs:
            return
        with self.database.write() as conn:
            ended = orders.acknowledge(conn, name, seqs)
            node = store.get_node(conn, name)
        if ended and node is not None:
            self.listeners.tell_changed(node, ended)

    def synchronise(self, name: str, stored_seqs: Mapping[str, int]) -> None:
        """Reconciles the orders with those of a connecting node: missing ones become pending again, and extra ones are
        withdrawn. Listeners are called with all its work.

        Args:
            name: the name of the node.
            stored_seqs: the node's orders: the number of each str(WorkKey).

        Raises:
            NodeNotFound: There is no such node.
        """
        with self.database.write() as conn:
            node = require_node(store.lock_node(conn, name), name)
            orders.synchronise(conn, name, stored_seqs)
            keys = node.worker_keys | store.keys_on(conn, name)
        self.listeners.tell_changed(node, keys)

    def may_read(self, name: str, sha256: str) -> bool:
        """Returns whether any order of this node names this file."""
        with self.database.read() as conn:
            contents = store.contents_on(conn, name)
        return any(orders.names_file(content, sha256) for content in contents)
