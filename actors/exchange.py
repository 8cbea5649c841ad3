"""Queue exchange: models on their way in, results on their way out."""

from __future__ import annotations

from actors.process import actor, container
from app.kit.queue.messages import Message


@actor(Message.TRANSFER)
def transfer(transfer_id: str) -> None:
    container.exchange.run(transfer_id)
