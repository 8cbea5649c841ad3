"""A message as a value, so that a change of a record can send it in the same step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OutgoingMessage:
    """What the stock broker's enqueue writes, and where: database and keys of the queue, id and text of the message."""

    database: int
    list_key: str
    texts_key: str
    message_id: str
    text: bytes
