"""Puts nodes together from the settings."""

from __future__ import annotations

import logging

import redis
from redis import Redis

from app.accounts.service import Accounts
from app.accounts.service.audit_log import note
from app.accounts.token_hashing import SecretHasher
from app.kit.redis.announcements import announcer
from app.kit.redis.records import NUDGES
from app.nodes.service import Nodes
from app.settings import Settings

logger = logging.getLogger(__name__)


def open_nodes(settings: Settings, accounts: Accounts, client: Redis) -> Nodes:
    """Nothing connects before it is used."""

    def nudge(node: str) -> None:
        """Tell the node, and open pages. Redis being away: the node hears of it a few seconds later, when it is looked
        for what it has not stored."""
        try:
            with client.pipeline(transaction=False) as pipe:
                for key in (f"node:{node}", f"nodes:{node}", "nodes"):
                    pipe.publish(f"{NUDGES}{key}", "")
                pipe.execute()
        except redis.RedisError as error:
            logger.warning("Node %s is told a little later: %s", node, error)

    keeper = SecretHasher(settings.secret_key.get_secret_value())
    nodes = Nodes(accounts.database, keeper, nudge, member_of=accounts.users.member, note=note)
    announce = announcer(client)
    nodes.on_change.append(lambda node, _: announce(("nodes", f"nodes:{node.name}")))
    nodes.on_permit.append(lambda name, _: announce(("nodes", f"nodes:{name}")))
    return nodes
