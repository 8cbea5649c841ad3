"""Transfers in Redis, for a day."""

from __future__ import annotations

import json
from typing import Any

import redis

from app.exchange.errors import TransferNotFound
from app.exchange.model import Transfer

TTL_S = 86400


class TransferStore:
    """Raises redis.RedisError while Redis is away."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def put(self, transfer: Transfer) -> None:
        self._client.set(_key(transfer.transfer_id), json.dumps(transfer.to_json()), ex=TTL_S)

    def get(self, transfer_id: str) -> Transfer:
        """Raises TransferNotFound."""
        text: Any = self._client.get(_key(transfer_id))
        if text is None:
            raise TransferNotFound(f"There is no transfer {transfer_id}.", hint="They are kept for a day.")
        return Transfer.from_json(json.loads(text))


def _key(transfer_id: str) -> str:
    return f"transfer:{transfer_id}"
