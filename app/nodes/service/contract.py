"""The interfaces that the operations on nodes need from others, and the listeners for changes of nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sqlalchemy import Connection

from app.kit.access import Member
from app.nodes.model import Node, WorkKey


class SecretHashing(Protocol):
    def hash(self, secret: str) -> str: ...
    def agrees(self, secret: str, token_hash: str) -> bool: ...


Notify = Callable[[str], None]
"""Notify the connection of this node that there are orders for it."""
OnKeys = Callable[[str, Collection[WorkKey]], None]
"""Called with a node's name and its orders outside of any transaction: it got a new token, perhaps for another machine,
others may use it, or it is selected by other labels."""
Note = Callable[[Connection, str, str, str, dict[str, Any]], None]
OnChange = Callable[[Node, Collection[WorkKey]], None]
"""Called outside of any transaction: a node came or went, these workers of it changed, or its offers did."""


@dataclass(frozen=True)
class NodeListeners:
    """Who hears of what happens to nodes."""

    changed: Sequence[OnChange] = ()
    replaced: Sequence[OnKeys] = ()
    permitted: Sequence[OnKeys] = ()

    def tell_changed(self, node: Node, keys: Collection[WorkKey]) -> None:
        for listener in self.changed:
            listener(node, keys)

    def tell_replaced(self, name: str, keys: Collection[WorkKey]) -> None:
        for listener in self.replaced:
            listener(name, keys)


MemberOf = Callable[[str], Member]
"""The user of this name, as access rules see them."""
