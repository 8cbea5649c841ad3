"""One try to hand a message over: by webhook, e-mail or chat."""

from app.notifications.senders.base import Sender, Senders
from app.notifications.senders.email import MailServer

__all__ = ["MailServer", "Sender", "Senders"]
