"""Queue exchange: models on their way in, results on their way out."""

from __future__ import annotations

import threading

from actors.process import actor, container
from app.kit.queue.messages import Message

AGAIN_MS = 2000
room = threading.Semaphore(2)
"""Of the threads of this process so many may wait for hubs and registries, for it has other queues to look after."""


@actor(Message.TRANSFER)
def transfer(transfer_id: str) -> None:
    if not room.acquire(blocking=False):
        transfer.send_with_options(kwargs={"transfer_id": transfer_id}, delay=AGAIN_MS)
        return
    try:
        container.exchange.run(transfer_id)
    finally:
        room.release()
