"""Rows and events by HTTP: a batch of CloudEvents, signed as Standard Webhooks are."""

from __future__ import annotations

import json
from collections.abc import Sequence

import anyio

from app.kit.clock import now
from app.kit.network.checked_post import NotSent, http_post
from app.results.model.sink import Delivery, Sink, TooLarge
from app.results.senders.server import NetworkSender

CONTENT_TOO_LARGE = 413
BATCH = "application/cloudevents-batch+json"


class HttpSender(NetworkSender):
    """Sends by HTTP."""

    def send(self, sink: Sink, deliveries: Sequence[Delivery]) -> str:
        """Returns why they were not accepted; empty if they were.

        Raises:
            TooLarge: The receiver never takes so much at once.
        """
        try:
            return anyio.run(self._send, sink, deliveries)
        except TimeoutError:
            return f"no answer within {self.try_s:g} s"

    async def _send(self, sink: Sink, deliveries: Sequence[Delivery]) -> str:
        from standardwebhooks.webhooks import Webhook  # imported only when something is sent

        body, moment = json.dumps([delivery.envelope for delivery in deliveries]), now()
        message_id = f"{sink.client_id}_{deliveries[0].number}_{deliveries[-1].number}"
        headers = {
            "Content-Type": BATCH,
            "webhook-id": message_id,
            "webhook-timestamp": str(int(moment.timestamp())),
            "webhook-signature": Webhook(sink.secret).sign(message_id, moment, body),
        }
        try:
            with anyio.fail_after(self.try_s):
                answer = await http_post(sink.address, body.encode(), headers, self.networks)
        except NotSent as error:
            return str(error)
        if answer.has_redirect_location:
            return "it redirects, and redirects are not followed: give the address it leads to"
        if answer.status_code == CONTENT_TOO_LARGE:
            raise TooLarge(f"it answered {answer.status_code}")
        return "" if answer.is_success else f"it answered {answer.status_code}"
