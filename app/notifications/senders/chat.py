"""A line of chat, as Slack's incoming webhooks and what is made like them take it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from app.kit.network.networks import Network
from app.notifications.model import Delivery, EventKind, Outcome, Target
from app.notifications.senders.post import send_json
from app.notifications.texts import message_text

ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""All that such a text may not hold as it is."""


class ChatSender:
    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks

    async def send(self, delivery: Delivery, target: Target) -> Outcome:
        """One try."""
        text = message_text(EventKind(delivery.event_kind), json.loads(delivery.body)["data"], target.language)
        payload = {"text": text.translate(ESCAPED)}
        return await send_json(target.address, json.dumps(payload).encode(), {}, self._networks)
