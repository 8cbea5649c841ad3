"""The table of toys, and the message by which one is put there."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from app.kit.queue.messages import BaseMessage, Queue
from app.kit.sql import metadata

toys = sa.Table("toys", metadata, sa.Column("name", sa.String(32), primary_key=True))


class ToyMessage(BaseMessage):
    PUT_TOY = "put_toy", Queue.PERIODIC


def count(conn: Connection) -> int:
    return int(conn.execute(sa.select(sa.func.count()).select_from(toys)).scalar_one())
