"""One try to hand a message over: by webhook, e-mail or chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import anyio

from app.kit.network.addresses import Network
from app.notifications.model import Delivery, Kind, Outcome, Target
from app.notifications.senders.email import EmailSender, MailServer
from app.notifications.senders.post import ChatSender, WebhookSender

TRY_S = 15.0
"""A receiver that has not answered within these seconds is tried again later."""


class Sender(Protocol):
    async def send(self, delivery: Delivery, target: Target) -> Outcome:
        """Tries once. Errors mean a fault of the product."""


class Senders:
    """Chooses the sender of a target.

    Args:
        networks: private networks that may be sent to.
        try_s: seconds that one try may take.
    """

    def __init__(self, mail: MailServer, networks: Sequence[Network], *, try_s: float = TRY_S) -> None:
        self._try_s = try_s
        self._senders: dict[Kind, Sender] = {
            Kind.WEBHOOK: WebhookSender(networks),
            Kind.CHAT: ChatSender(networks),
            Kind.EMAIL: EmailSender(mail, try_s=try_s),
        }

    async def send(self, delivery: Delivery, target: Target) -> Outcome:
        """Tries once, within the time limit."""
        try:
            with anyio.fail_after(self._try_s):
                return await self._senders[target.kind].send(delivery, target)
        except TimeoutError:
            return Outcome(False, problem=f"no answer within {self._try_s:g} s")
