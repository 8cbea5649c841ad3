"""Access rules for nodes and their cameras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from app.kit.access import Member
from app.kit.sql import Database
from app.nodes import store
from app.nodes.errors import NodeNotFound
from app.nodes.grants import Grants, visible_node
from app.nodes.model import Node
from app.nodes.service.contract import MemberOf, Note, OnKeys

T = TypeVar("T")


class NodeAccess:
    """The nodes as users may see them."""

    def __init__(
        self,
        database: Database,
        *,
        member_of: MemberOf = Member,
        note: Note = lambda *_: None,
        permitted: Sequence[OnKeys] = (),
    ) -> None:
        """Args:
        member_of: gives a user's groups.
        note: writes an entry of the audit log in the transaction: by whom, what, to what, details.
        permitted: called after it was changed who may use a node.
        """
        self.database = database
        self.member_of = member_of
        self.note = note
        self.permitted = permitted

    def seen_by(self, user: str) -> list[Node]:
        """By name, the nodes that this user may use, without cameras that they may not use."""
        member = self.member_of(user)
        with self.database.read() as conn:
            granted = store.nodes_with_grants(conn)
        return [visible for node, grants in granted if (visible := visible_node(member, node, grants)) is not None]

    def find_for(self, user: str, name: str) -> Node | None:
        """The node as this user may see it; None: they may not use it, or it does not exist."""
        member = self.member_of(user)
        with self.database.read() as conn:
            granted = store.grants_of(conn, name)
        return visible_node(member, *granted) if granted else None

    def get_for(self, user: str, name: str) -> Node:
        """Raises NodeNotFound, also for one that they may not use."""
        return require_node(self.find_for(user, name), name)

    def hidden_from(self, user: str, name: str) -> dict[str, list[str]]:
        """The restricted cameras of this node that this user may not use; none for an unknown node."""
        member = self.member_of(user)
        with self.database.read() as conn:
            granted = store.grants_of(conn, name)
        return granted[1].hidden(member) if granted else {}

    def grants(self, name: str) -> Grants:
        """Raises NodeNotFound."""
        with self.database.read() as conn:
            _, granted = require_node(store.grants_of(conn, name), name)
        return granted

    def permit(self, name: str, grants: Grants, *, by: str) -> None:
        """Set who may use a node; its listeners end the work of others there. Raises NodeNotFound."""
        with self.database.write() as conn:
            require_node(store.lock_node(conn, name), name)
            store.put_grants(conn, name, grants)
            self.note(conn, by, "node.access", f"node:{name}", grants.to_json())
            keys = store.keys_on(conn, name)
        for listener in self.permitted:
            listener(name, keys)


def require_node(known: T | None, name: str) -> T:
    if known is None:
        raise NodeNotFound(f"There is no node {name!r}.", hint="The page of nodes has their names.")
    return known
