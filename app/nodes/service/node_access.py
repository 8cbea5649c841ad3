"""Access rules for nodes and their cameras, and the labels of nodes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TypeVar

from app.kit.access import Member
from app.kit.errors import Forbidden
from app.kit.sql import Database
from app.kit.text.labels import check_labels, selects
from app.nodes import store
from app.nodes.errors import NodeNotFound
from app.nodes.grants import Grants, visible_node
from app.nodes.model import Node, WorkKey
from app.nodes.service.contract import MemberOf, Note, OnKeys

T = TypeVar("T")


@dataclass(eq=False)
class NodeAccess:
    """The access of users to nodes.

    Args:
        member_of: gives a user's groups.
        note: writes an entry of the audit log in the transaction: by whom, what, to what, details.
        permitted: called after the access rules or the labels of a node have changed.
    """

    database: Database
    _: KW_ONLY
    member_of: MemberOf = Member
    note: Note = lambda *_: None
    permitted: Sequence[OnKeys] = ()

    def seen_by(self, user: str) -> list[Node]:
        """Returns by name the nodes that this user may use, without cameras that they may not use."""
        member = self.member_of(user)
        with self.database.read() as conn:
            granted = store.nodes_with_grants(conn)
        return [visible for node, grants in granted if (visible := visible_node(member, node, grants)) is not None]

    def selected_by(self, user: str, selector: Mapping[str, str]) -> list[Node]:
        """Returns by name the edge nodes with these labels that this user may use."""
        return [node for node in self.seen_by(user) if node.is_at_the_edge and selects(selector, node.labels)]

    def is_owner(self, user: str, name: str) -> bool:
        """Returns whether this user may label the node and change its access rules. Nobody owns an unknown node."""
        member = self.member_of(user)
        with self.database.read() as conn:
            granted = store.grants_of(conn, name)
        return granted is not None and granted[1].owners.admits(member)

    def find_for(self, user: str, name: str) -> Node | None:
        """Returns the node without cameras that this user may not use. None: they may not use it, or it is unknown."""
        member = self.member_of(user)
        with self.database.read() as conn:
            granted = store.grants_of(conn, name)
        return visible_node(member, *granted) if granted else None

    def get_for(self, user: str, name: str) -> Node:
        """Returns the node as find_for does.

        Raises:
            NodeNotFound: There is none, or the user may not use it.
        """
        return require_node(self.find_for(user, name), name)

    def hidden_from(self, user: str, name: str) -> dict[str, list[str]]:
        """Returns the restricted cameras of this node that this user may not use; none for an unknown node."""
        member = self.member_of(user)
        with self.database.read() as conn:
            granted = store.grants_of(conn, name)
        return granted[1].hidden(member) if granted else {}

    def grants(self, name: str) -> Grants:
        """Returns the access rules of a node."""
        with self.database.read() as conn:
            _, granted = require_node(store.grants_of(conn, name), name)
        return granted

    def permit(self, name: str, grants: Grants, *, by: str, is_admin: bool = True) -> None:
        """Sets the access rules of a node; the listeners end the work of users without access.

        Args:
            name: the name of the node.
            grants: the new rules.
            by: the acting user, for the audit log.
            is_admin: whether they may change its owners, too.

        Raises:
            NodeNotFound: There is no such node.
            Forbidden: The owners would change.
        """
        with self.database.write() as conn:
            require_node(store.lock_node(conn, name), name)
            former = require_node(store.grants_of(conn, name), name)[1]
            if grants.owners != former.owners and not is_admin:
                raise Forbidden("Who owns a node is for administrators to say.", hint="Ask one of them.")
            store.put_grants(conn, name, grants)
            self.note(conn, by, "node.access", f"node:{name}", grants.to_json())
            keys = store.keys_on(conn, name)
        self._tell(name, keys)

    def label(self, name: str, labels: Mapping[str, str], *, by: str) -> None:
        """Sets the labels of a node; services that select it by them start there, others end.

        Raises:
            NodeNotFound: There is no such node.
            BadLabels: See `check_labels`.
        """
        checked = check_labels(labels)
        with self.database.write() as conn:
            require_node(store.lock_node(conn, name), name)
            store.put_labels(conn, name, checked)
            self.note(conn, by, "node.labels", f"node:{name}", checked)
            keys = store.keys_on(conn, name)
        self._tell(name, keys)

    def _tell(self, name: str, keys: Collection[WorkKey]) -> None:
        for listener in self.permitted:
            listener(name, keys)


def require_node(known: T | None, name: str) -> T:
    if known is None:
        raise NodeNotFound(f"There is no node {name!r}.", hint="The page of nodes has their names.")
    return known
