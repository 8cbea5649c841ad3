"""Puts nodes together from the settings."""

from __future__ import annotations

from app.accounts.credentials import SecretHasher
from app.accounts.service import Accounts
from app.accounts.service.audit_log import note
from app.kit.queue.waker import Waker
from app.nodes.service import NodeListeners, Nodes
from app.settings import Settings


def open_nodes(settings: Settings, accounts: Accounts, waker: Waker, listeners: NodeListeners) -> Nodes:
    """Nothing connects before it is used.

    Args:
        waker: tells a node that there is an order for it, and open pages that a node has changed.
        listeners: what other capabilities do when a node changes or goes.
    """

    def notify(node: str) -> None:
        """A node that does not hear it hears of it a few seconds later, when it is looked for what it has not stored.
        Open pages are told, too."""
        waker.notify(f"node:{node}", f"nodes:{node}", "nodes")

    secret_key = settings.secret_key.get_secret_value()
    return Nodes(
        accounts.database,
        SecretHasher(secret_key),
        notify,
        member_of=accounts.users.member,
        note=note,
        listeners=listeners,
        secret_key=secret_key,
    )
