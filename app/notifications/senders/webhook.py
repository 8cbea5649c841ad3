"""Standard Webhooks: the body as it is, signed with the target's secret."""

from __future__ import annotations

from collections.abc import Sequence

from standardwebhooks.webhooks import Webhook

from app.kit.clock import now
from app.kit.network.networks import Network
from app.notifications.model import Delivery, Outcome, Target
from app.notifications.senders.post import send_json


class WebhookSender:
    def __init__(self, networks: Sequence[Network]) -> None:
        self._networks = networks

    async def send(self, delivery: Delivery, target: Target) -> Outcome:
        """One try. The signature's time is that of the try: a receiver refuses old ones."""
        moment = now()
        headers = {
            "webhook-id": delivery.delivery_id,
            "webhook-timestamp": str(int(moment.timestamp())),
            "webhook-signature": Webhook(target.secret).sign(delivery.delivery_id, moment, delivery.body),
        }
        return await send_json(target.address, delivery.body.encode(), headers, self._networks)
