"""The interfaces that the operations on nodes need from others, and the listeners for changes of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy import Connection

from app.kit.access import Member
from app.kit.text.json_values import JsonObject
from app.nodes.model import Node, WorkKey


class SecretHasher(Protocol):
    def hash(self, secret: str) -> str: ...
    def agrees(self, secret: str, token_hash: str) -> bool: ...


Notify = Callable[[str], None]
"""Notifies the connection of this node of new orders."""
OnKeys = Callable[[str, Collection[WorkKey]], None]
"""Called with a node's name and the keys of its orders, outside of any transaction: it has a new token, perhaps for
another machine, its access rules have changed, or its labels have."""
Note = Callable[[Connection, str, str, str, JsonObject], None]
OnChange = Callable[[Node, Collection[WorkKey]], None]
"""Called outside of any transaction: a node came or went, or these workers or its offers have changed."""


@dataclass(frozen=True)
class NodeListeners:
    """The listeners for changes of nodes.

    Attributes:
        standing: kinds of orders that do not keep a node from being removed.
    """

    changed: Sequence[OnChange] = ()
    replaced: Sequence[OnKeys] = ()
    permitted: Sequence[OnKeys] = ()
    standing: frozenset[str] = frozenset()

    def tell_changed(self, node: Node, keys: Collection[WorkKey]) -> None:
        """Call it outside of any transaction: see OnChange."""
        for listener in self.changed:
            listener(node, keys)

    def tell_replaced(self, name: str, keys: Collection[WorkKey]) -> None:
        """Call it outside of any transaction: see OnKeys."""
        for listener in self.replaced:
            listener(name, keys)


MemberOf = Callable[[str], Member]
"""Returns the user with this name as a member for access rules."""
