"""A POST to a user's address, and the meaning of its response: webhooks, signed as in Standard Webhooks, and a line of
chat, as for Slack's incoming webhooks and compatible ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from standardwebhooks.webhooks import Webhook

from app.kit.clock import now
from app.kit.network.addresses import Network
from app.kit.network.checked_post import NotSent, http_post
from app.notifications.model import PATIENCE_S, Delivery, Outcome, Target
from app.notifications.texts import message_text

if TYPE_CHECKING:
    import httpx

GONE = 410


async def send_json(url: str, body: bytes, headers: Mapping[str, str], networks: Sequence[Network]) -> Outcome:
    """POST a JSON document once; see checked_post.

    Args:
        networks: private ones that may be reached.

    Returns:
        The result; a message that cannot be sent raises nothing.
    """
    try:
        answer = await http_post(url, body, headers, networks)
    except NotSent as error:
        return Outcome(False, problem=str(error))
    return outcome_of(answer)


def outcome_of(answer: httpx.Response) -> Outcome:
    """Returns the meaning of a response."""
    status = answer.status_code
    if answer.is_success:
        return Outcome(True, status)
    if answer.has_redirect_location:
        return Outcome(False, status, "it redirects, and redirects are not followed: give the address it leads to")
    if status == GONE:
        return Outcome(False, status, "it answered 410: it wants nothing more", is_final=True, is_gone=True)
    return Outcome(False, status, f"it answered {status}", retry_after_s=_retry_after_s(answer))


def _retry_after_s(answer: httpx.Response) -> float:
    text = answer.headers.get("retry-after", "")
    return min(float(text), PATIENCE_S) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0


ESCAPED = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
"""Characters that such a text has to escape."""


class ChatSender:
    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks

    async def send(self, delivery: Delivery, target: Target) -> Outcome:
        """Tries once."""
        text = message_text(delivery.event_kind, json.loads(delivery.body)["data"], target.language)
        payload = {"text": text.translate(ESCAPED)}
        return await send_json(target.address, json.dumps(payload).encode(), {}, self._networks)


class WebhookSender:
    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks

    async def send(self, delivery: Delivery, target: Target) -> Outcome:
        """Tries once. The signature has the time of the try, since receivers refuse old ones."""
        moment = now()
        headers = {
            "webhook-id": delivery.delivery_id,
            "webhook-timestamp": str(int(moment.timestamp())),
            "webhook-signature": Webhook(target.secret).sign(delivery.delivery_id, moment, delivery.body),
        }
        return await send_json(target.address, delivery.body.encode(), headers, self._networks)
