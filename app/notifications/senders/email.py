"""E-mail, through the mail server of the installation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import format_datetime

from app.kit.clock import from_text
from app.notifications.model import Delivery, Outcome, Target
from app.notifications.texts import message_text, subject_line

PERMANENT = range(500, 600)
ACCEPTED = 250
"""The code of a message that the server has accepted; aiosmtplib raises at any other."""


@dataclass(frozen=True)
class MailServer:
    """The server that sends e-mail."""

    host: str = ""
    """Empty if there is none."""
    port: int = 587
    user: str = ""
    password: str = ""
    security: str = "starttls"
    """One of: none, starttls, tls."""
    sender: str = ""
    """The address that messages come from."""


class EmailSender:
    """Sends e-mail.

    Args:
        try_s: seconds that each step of a try may take.
    """

    def __init__(self, server: MailServer, *, try_s: float) -> None:
        self._server = server
        self._try_s = try_s

    async def send(self, delivery: Delivery, target: Target) -> Outcome:
        """Tries once."""
        import aiosmtplib  # imported only when something is sent

        server = self._server
        if not server.host:
            return Outcome(False, problem="this installation has no mail server", is_final=True)
        try:
            await aiosmtplib.send(
                message_of(delivery, target, server.sender),
                hostname=server.host,
                port=server.port,
                username=server.user or None,
                password=server.password or None,
                use_tls=server.security == "tls",
                start_tls=server.security == "starttls",
                timeout=self._try_s,
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            refused = error.recipients[0]
            return _make_refused(refused.code, refused.message)
        except aiosmtplib.SMTPResponseException as error:
            is_ours = isinstance(error, aiosmtplib.SMTPAuthenticationError)
            return Outcome(False, error.code, error.message) if is_ours else _make_refused(error.code, error.message)
        except (aiosmtplib.SMTPException, OSError, ValueError) as error:
            return Outcome(False, problem=f"the mail server: {error or type(error).__name__}")
        return Outcome(True, ACCEPTED)


def message_of(delivery: Delivery, target: Target, sender: str) -> EmailMessage:
    """Returns the message; it contains the id of the delivery, so that a second copy is recognized."""
    kind, data = delivery.event_kind, json.loads(delivery.body)["data"]
    message = EmailMessage()
    message["From"] = sender
    message["To"] = target.address
    message["Subject"] = subject_line(kind, data, target.language)
    message["Date"] = format_datetime(from_text(delivery.created_at))
    message["Message-ID"] = f"<{delivery.delivery_id}@{sender.rpartition('@')[2].rstrip('>') or 'modelmill'}>"
    message["Auto-Submitted"] = "auto-generated"
    message["Content-Language"] = target.language
    message.set_content(message_text(kind, data, target.language))
    return message


def _make_refused(code: int, message: str) -> Outcome:
    return Outcome(False, code, f"the mail server answered {code} {message}", is_final=code in PERMANENT)
