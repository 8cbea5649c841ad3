"""Assembles notifications from the settings: for the web application, its actors, and publishers of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kit.access import EnabledOf
from app.kit.network.addresses import read_networks
from app.kit.sql import Database
from app.kit.sql.events import EventListener
from app.notifications.record import listener
from app.settings import Settings

if TYPE_CHECKING:
    from app.notifications.service import Notifications


def open_notifications(settings: Settings, database: Database, *, enabled_of: EnabledOf) -> Notifications:
    """Nothing connects before it is used."""
    from app.notifications.senders import MailServer, Senders
    from app.notifications.service import Notifications, Outbox, Targets

    networks = read_networks(settings.notification_networks)
    mail = MailServer(
        settings.smtp_host,
        settings.smtp_port,
        settings.smtp_user,
        settings.smtp_password.get_secret_value(),
        settings.smtp_security,
        settings.smtp_sender,
    )
    targets = Targets(
        database, networks, has_mail=bool(settings.smtp_host), url_of=lambda path: f"{settings.web_url}{path}"
    )
    outbox = Outbox(database, Senders(mail, networks), event_listener(settings), enabled_of=enabled_of)
    return Notifications(targets, outbox)


def event_listener(settings: Settings) -> EventListener:
    """What a database tells of events."""
    return listener(lambda path: f"{settings.web_url}{path}")
