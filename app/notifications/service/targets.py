"""Targets of notifications: added, changed, tested, removed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from email.headerregistry import Address as MailAddress
from typing import Any
from uuid import uuid4

from app.kit import clock
from app.kit.clock import to_text
from app.kit.network.addresses import Network
from app.kit.network.checked_post import new_signing_secret
from app.kit.network.public_hosts import check_url
from app.kit.sql import Database, Event, note_change
from app.notifications.errors import BadAddress, MailOff, TargetNotFound, TooManyTargets, TooManyTests
from app.notifications.model import TEST, Delivery, EventKind, Kind, Target
from app.notifications.record import CHANGED, delivery_of
from app.notifications.store import deliveries, targets

MOST = 50
"""For one user."""
TESTS_PER_MINUTE = 5


@dataclass(frozen=True)
class NewTarget:
    kind: Kind
    address: str
    events: tuple[EventKind, ...] = ()
    subject: str = ""
    label: str = ""
    language: str = "en"


class Targets:
    """The targets of users.

    Args:
        networks: private networks that may be sent to.
        has_mail: there is a mail server.
        url_of: returns the address of a page, given its path.
    """

    def __init__(
        self, database: Database, networks: Sequence[Network], *, has_mail: bool, url_of: Callable[[str], str]
    ) -> None:
        self.database = database
        self.networks = networks
        self.has_mail = has_mail
        self.url_of = url_of

    def of(self, owner: str) -> list[Target]:
        """Returns a user's targets, the oldest first."""
        with self.database.read() as conn:
            return targets.of(conn, owner)

    def get(self, owner: str, target_id: str) -> Target:
        """Returns a target.

        Raises:
            TargetNotFound: This user has none with this id.
        """
        with self.database.read() as conn:
            return _require(targets.get(conn, owner, target_id), target_id)

    def add(self, owner: str, new: NewTarget) -> Target:
        """Adds a target; a webhook gets a new secret.

        Raises:
            BadUrl, AddressRefused, BadAddress: It cannot be sent to.
            MailOff: There is no mail server.
            TooManyTargets: The user has the maximum number.
        """
        target = Target(
            uuid4().hex,
            owner,
            new.kind,
            self._check_address(new.kind, new.address),
            new_signing_secret() if new.kind is Kind.WEBHOOK else "",
            new.events,
            new.subject,
            new.label,
            new.language,
            to_text(clock.now()),
        )
        with self.database.write() as conn:
            if targets.count(conn, owner) >= MOST:
                raise TooManyTargets(f"You have {MOST} targets.", hint="Remove one that is not needed any more.")
            targets.add(conn, target)
        return target

    def change(self, owner: str, target_id: str, **values: Any) -> Target:
        """Changes a target.

        Args:
            values: events, label, is_enabled.

        Raises:
            TargetNotFound: This user has none with this id.
        """
        with self.database.write() as conn:
            target = _require(targets.get(conn, owner, target_id), target_id)
            if values.get("is_enabled"):
                values["problem"] = ""
                note_change(conn, CHANGED)
            if values:
                targets.change(conn, target_id, **values)
        return replace(target, **values)

    def remove(self, owner: str, target_id: str) -> None:
        """Removes a target and its messages.

        Raises:
            TargetNotFound: This user has none with this id.
        """
        with self.database.write() as conn:
            if not targets.delete(conn, owner, target_id):
                raise _make_not_found(target_id)

    def test(self, owner: str, target_id: str) -> Delivery:
        """Sends a test message.

        Raises:
            TargetNotFound: This user has none with this id.
            TooManyTests: It was tested a moment ago.
        """
        moment = clock.now()
        with self.database.write() as conn:
            target = _require(targets.get(conn, owner, target_id), target_id)
            since = to_text(moment - timedelta(minutes=1))
            if deliveries.count_since(conn, target_id, TEST, since) >= TESTS_PER_MINUTE:
                raise TooManyTests("It was tested a moment ago.", hint="Wait a minute.", detail={"retry_after_s": 60})
            event = Event(
                f"test:{uuid4().hex}",
                TEST,
                owner,
                f"target:{target_id}",
                target.label or target.kind.value,
                to_text(moment),
                path="/ui/account/notifications",
            )
            delivery = delivery_of(event, target_id, self.url_of)
            deliveries.add(conn, delivery)
            targets.change(conn, target_id, is_enabled=True, problem="")
            note_change(conn, CHANGED)
        return delivery

    def _check_address(self, kind: Kind, address: str) -> str:
        if kind is not Kind.EMAIL:
            return check_url(address, self.networks)
        if not self.has_mail:
            raise MailOff("This installation has no mail server.", hint="The operator can set MODELMILL_SMTP_HOST.")
        return check_mail(address)


def check_mail(address: str) -> str:
    """Returns the address as it is stored.

    Raises:
        BadAddress: It is not an e-mail address.
    """
    text = address.strip()
    try:
        parsed = MailAddress(addr_spec=text)
        is_one = bool(parsed.username and parsed.domain) and len(text) <= 254 and text.isprintable()
    except Exception:  # noqa: BLE001  # its parser raises IndexError and others for what is none
        is_one = False
    if not is_one:
        raise BadAddress(f"{text[:200]!r} is not an e-mail address.", hint="Give one as ada@example.org.")
    return text


def _require(target: Target | None, target_id: str) -> Target:
    if target is None:
        raise _make_not_found(target_id)
    return target


def _make_not_found(target_id: str) -> TargetNotFound:
    return TargetNotFound(
        f"There is no notification target {target_id[:64]}.",
        hint="`modelmill notifications list` or GET /notifications/targets lists yours.",
    )
