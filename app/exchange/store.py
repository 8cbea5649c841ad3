"""Transfers in Redis, kept for a day."""

from __future__ import annotations

import json
import time
from typing import Any

import redis

from app.exchange.errors import TransferNotFound
from app.exchange.model import TRANSFER, Transfer

TTL_S = 86400


class TransferStore:
    """Stores transfers. Methods raise redis.RedisError while Redis is unreachable."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def put(self, transfer: Transfer) -> None:
        unfinished, now = _build_unfinished_key(transfer.owner), time.time()
        with self._client.pipeline(transaction=True) as pipe:
            pipe.set(_build_key(transfer.transfer_id), json.dumps(TRANSFER.write(transfer)), ex=TTL_S)
            if transfer.is_over:
                pipe.zrem(unfinished, transfer.transfer_id)
            else:
                pipe.zadd(unfinished, {transfer.transfer_id: now})
                pipe.expire(unfinished, TTL_S)
            pipe.execute()

    def get(self, transfer_id: str) -> Transfer:
        """Returns a transfer.

        Raises:
            TransferNotFound: There is none with this id.
        """
        text: Any = self._client.get(_build_key(transfer_id))
        if text is None:
            raise TransferNotFound(f"There is no transfer {transfer_id}.", hint="They are kept for a day.")
        return TRANSFER.read(json.loads(text))

    def count_unfinished(self, owner: str, *, within_s: float) -> int:
        """Counts this user's unfinished transfers; one without news for longer than that has died."""
        return int(self._client.zcount(_build_unfinished_key(owner), time.time() - within_s, "+inf"))


def _build_key(transfer_id: str) -> str:
    return f"transfer:{transfer_id}"


def _build_unfinished_key(owner: str) -> str:
    return f"transfers:{owner}"
