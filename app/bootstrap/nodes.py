"""Puts nodes together from the settings."""

from __future__ import annotations

import logging

import redis
from redis import Redis

from app.accounts.service import Accounts
from app.accounts.service.audit_log import note
from app.accounts.token_hashing import SecretHasher
from app.kit.redis.records import NUDGES
from app.nodes.service import Nodes
from app.settings import Settings

logger = logging.getLogger(__name__)


def open_nodes(settings: Settings, accounts: Accounts, client: Redis) -> Nodes:
    """Nothing connects before it is used."""

    def nudge(node: str) -> None:
        """Redis being away: the node hears of it a few seconds later, when it is looked for what it has not stored."""
        try:
            client.publish(f"{NUDGES}node:{node}", "")
        except redis.RedisError as error:
            logger.warning("Node %s is told a little later: %s", node, error)

    keeper = SecretHasher(settings.secret_key.get_secret_value())
    return Nodes(accounts.database, keeper, nudge, member_of=accounts.users.member, note=note)
