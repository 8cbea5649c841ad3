"""Notifications on a database of their own, and things that happen."""

from __future__ import annotations

from app.accounts.credentials import SecretHasher
from app.accounts.model import Role
from app.accounts.service import Accounts
from app.kit.network.addresses import read_networks
from app.kit.sql import Database, Event
from app.notifications.record import listener
from app.notifications.senders import MailServer, Senders
from app.notifications.service import Notifications, Outbox, Targets

HERE = read_networks("127.0.0.0/8")


def page_url(path: str) -> str:
    return f"https://mill.example{path}"


def notifications_on(
    database: Database, *, mail: MailServer | None = None, networks: str = "127.0.0.0/8", try_s: float = 15.0
) -> Notifications:
    """With the users ada and bob; this machine's own addresses may be sent to."""
    accounts = Accounts(database, SecretHasher("a key"))
    for name in ("ada", "bob"):
        accounts.users.ensure(name, Role.USER)
    allowed, server = read_networks(networks), mail or MailServer()
    targets = Targets(database, allowed, has_mail=bool(server.host), url_of=page_url)
    senders, enabled_of = Senders(server, allowed, try_s=try_s), accounts.users.enabled_of
    return Notifications(targets, Outbox(database, senders, listener(page_url), enabled_of=enabled_of))


def failed_job(owner: str = "ada", job_id: str = "1") -> Event:
    facts = {"reason": "the stage <ran> out of memory", "hint": "Use a smaller model."}
    at = "2026-11-24T00:00:00.000Z"
    subject = f"job:{job_id}"
    return Event(f"{subject}:job.failed", "job.failed", owner, subject, "yolo", at, f"/ui/jobs/{job_id}", facts)
