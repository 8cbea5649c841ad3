"""Puts toys where they are counted."""

from __future__ import annotations

import sqlalchemy as sa

from actors.process import actor, container
from tests.harness.toy import store

DONE = "toys:done"
"""List in Redis, for whoever waits for one."""


@actor(store.ToyMessage.PUT_TOY)
def put_toy(name: str) -> None:
    with container.database.write() as conn:
        conn.execute(sa.insert(store.toys).values(name=name))
    container.redis.lpush(DONE, name)
