"""A real SMTP server that keeps what it is given, or refuses it as a test says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tests.harness.ports import free_port


@dataclass
class Mailbox:
    port: int
    refusal: str = ""
    """Answered to a recipient, as `550 no such user`; empty: all are taken."""
    messages: list[EmailMessage] = field(default_factory=list)

    def authenticate(self, *_: object) -> AuthResult:
        """No password is right."""
        return AuthResult(success=False, handled=False)

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if self.refusal:
            return self.refusal
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        message = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.messages.append(message)
        return "250 OK"


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    mailbox = Mailbox(free_port())
    controller = Controller(
        mailbox,
        hostname="127.0.0.1",
        port=mailbox.port,
        auth_require_tls=False,
        authenticator=mailbox.authenticate,
    )
    controller.start()
    try:
        yield mailbox
    finally:
        controller.stop()
