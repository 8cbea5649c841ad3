"""Messages to real receivers: one that takes them, and those that are down, slow, gone, or lead elsewhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http.server import BaseHTTPRequestHandler

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from app.accounts.credentials import SecretHasher
from app.accounts.service import Accounts
from app.kit import clock
from app.kit.sql import Database
from app.notifications.model import Delivery, DeliveryState, Kind
from app.notifications.senders import MailServer
from app.notifications.service import NewTarget, Notifications
from tests.harness.http_server import served
from tests.harness.mail_server import Mailbox, mail_server
from tests.harness.notifications import failed_job, notifications_on
from tests.harness.ports import free_port
from tests.harness.until import PATIENCE_S, until


class Receiver:
    """Answers as a test says, and keeps what came: headers and body."""

    def __init__(self, *statuses: int, location: str = "") -> None:
        self.statuses = list(statuses)
        self.location = location
        self.requests: list[tuple[dict[str, str], bytes]] = []

    def __call__(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        self.requests.append(({name.lower(): value for name, value in handler.headers.items()}, body))
        handler.send_response(self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0])
        if self.location:
            handler.send_header("Location", self.location)
        handler.end_headers()


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    with mail_server() as running:
        yield running


def told(database: Database, notifications: Notifications, target: NewTarget) -> Delivery:
    """What became of the message of a failed job after one try."""
    notifications.targets.add("ada", target)
    notifications.outbox.note(failed_job())
    assert notifications.outbox.deliver_due() == 1
    return notifications.outbox.newest("ada")[0]


def make_due(database: Database, monkeypatch: pytest.MonkeyPatch, after: timedelta) -> None:
    """Later, for whoever asks what time it is."""
    later = clock.now() + after
    monkeypatch.setattr(clock, "now", lambda: later)


def test_a_webhook_is_signed_and_its_receiver_can_check_it(database: Database) -> None:
    notifications, receiver = notifications_on(database), Receiver(204)
    with served(receiver) as url:
        target = notifications.targets.add("ada", NewTarget(Kind.WEBHOOK, f"{url}/hook"))
        notifications.outbox.note(failed_job())
        notifications.outbox.deliver_due()
    ((headers, body),) = receiver.requests
    checked = Webhook(target.secret).verify(body, headers)
    assert checked["type"] == "job.failed"
    assert checked["data"]["url"] == "https://mill.example/ui/jobs/1"
    assert headers["webhook-id"] == notifications.outbox.newest("ada")[0].delivery_id
    with pytest.raises(WebhookVerificationError):
        Webhook(target.secret).verify(body.replace(b"yolo", b"yolk"), headers)
    assert notifications.outbox.newest("ada")[0].state is DeliveryState.DELIVERED


def test_a_receiver_that_is_down_is_tried_again_under_the_same_id(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    notifications, port = notifications_on(database), free_port()
    first = told(database, notifications, NewTarget(Kind.WEBHOOK, f"http://127.0.0.1:{port}/"))
    assert (first.state, first.tries) == (DeliveryState.PENDING, 1)
    assert first.problem
    assert notifications.outbox.deliver_due() == 0, "its pause is not over"
    make_due(database, monkeypatch, timedelta(minutes=5))
    receiver = Receiver(503, 200)
    with served(receiver, port=port):
        assert notifications.outbox.deliver_due() == 1
        make_due(database, monkeypatch, timedelta(minutes=5))
        assert notifications.outbox.deliver_due() == 1
    ids = {headers["webhook-id"] for headers, _ in receiver.requests}
    assert ids == {first.delivery_id}
    last = notifications.outbox.newest("ada")[0]
    assert (last.state, last.tries, last.status) == (DeliveryState.DELIVERED, 3, 200)


def test_after_a_day_it_is_given_up_and_can_be_sent_again_by_hand(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    notifications, receiver = notifications_on(database), Receiver(500)
    with served(receiver) as url:
        delivery = told(database, notifications, NewTarget(Kind.WEBHOOK, url))
        tries = 1
        while delivery.state is DeliveryState.PENDING:
            make_due(database, monkeypatch, timedelta(hours=4, minutes=1))
            tries += notifications.outbox.deliver_due()
            delivery = notifications.outbox.newest("ada")[0]
        assert delivery.state is DeliveryState.FAILED
        assert 5 < tries < 20
        receiver.statuses = [200]
        notifications.outbox.redeliver("ada", delivery.delivery_id)
        assert notifications.outbox.deliver_due() == 1
    assert notifications.outbox.newest("ada")[0].state is DeliveryState.DELIVERED


def test_a_slow_receiver_is_given_up_for_now_and_keeps_no_other_waiting(database: Database) -> None:
    notifications, over, receiver = notifications_on(database, try_s=4.0), threading.Event(), Receiver(200)

    def never(_: BaseHTTPRequestHandler, __: bytes) -> None:
        over.wait()

    with served(receiver) as url, served(never) as slow:
        for address in (slow, url):
            notifications.targets.add("ada", NewTarget(Kind.WEBHOOK, address))
        notifications.outbox.note(failed_job())
        assert notifications.outbox.deliver_due() == 2
        over.set()
    states = {each.state for each in notifications.outbox.newest("ada")}
    assert states == {DeliveryState.DELIVERED, DeliveryState.PENDING}


def test_what_is_due_while_a_receiver_does_not_answer_is_sent_at_once(database: Database) -> None:
    notifications, over, receiver = notifications_on(database, try_s=PATIENCE_S), threading.Event(), Receiver(200)
    hangs = threading.Event()

    def never(_: BaseHTTPRequestHandler, __: bytes) -> None:
        hangs.set()
        over.wait()

    with served(receiver) as url, served(never) as slow, ThreadPoolExecutor(1) as pool:
        notifications.targets.add("ada", NewTarget(Kind.WEBHOOK, slow))
        notifications.outbox.note(failed_job())
        sending = pool.submit(notifications.outbox.deliver_due)
        assert hangs.wait(PATIENCE_S)
        quick = notifications.targets.add("ada", NewTarget(Kind.WEBHOOK, url))
        notifications.targets.test("ada", quick.target_id)
        until(lambda: receiver.requests)
        over.set()
        assert sending.result() == 2


def test_a_disabled_user_is_told_nothing(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    notifications, receiver = notifications_on(database), Receiver(204)
    users = Accounts(database, SecretHasher("a key")).users
    users.change("ada", is_enabled=False, by="test")
    with served(receiver) as url:
        delivery = told(database, notifications, NewTarget(Kind.WEBHOOK, url))
        assert (delivery.state, delivery.problem) == (DeliveryState.PENDING, "its user is disabled")
        assert not receiver.requests
        users.change("ada", is_enabled=True, by="test")
        make_due(database, monkeypatch, timedelta(minutes=5))
        assert notifications.outbox.deliver_due() == 1
    assert len(receiver.requests) == 1


def test_a_redirect_is_not_followed(database: Database) -> None:
    inside, receiver = Receiver(200), Receiver(307)
    notifications = notifications_on(database)
    with served(inside) as private:
        receiver.location = f"{private}/secret"
        with served(receiver) as url:
            delivery = told(database, notifications, NewTarget(Kind.WEBHOOK, url))
    assert not inside.requests
    assert delivery.state is DeliveryState.PENDING
    assert "redirects" in delivery.problem


def test_a_name_that_leads_to_this_machine_is_not_sent_to(database: Database) -> None:
    notifications, receiver = notifications_on(database, networks=""), Receiver(200)
    with served(receiver) as url:
        address = url.replace("127.0.0.1", "localhost")
        delivery = told(database, notifications, NewTarget(Kind.WEBHOOK, address))
    assert not receiver.requests
    assert "private network" in delivery.problem


def test_a_receiver_that_is_gone_is_switched_off(database: Database) -> None:
    notifications = notifications_on(database)
    with served(Receiver(410)) as url:
        delivery = told(database, notifications, NewTarget(Kind.WEBHOOK, url))
    assert delivery.state is DeliveryState.FAILED
    (target,) = notifications.targets.of("ada")
    assert not target.is_enabled
    assert "410" in target.problem


def test_chat_gets_one_text_that_holds_no_markup(database: Database) -> None:
    notifications, receiver = notifications_on(database), Receiver(200)
    with served(receiver) as url:
        told(database, notifications, NewTarget(Kind.CHAT, f"{url}/services/T/B/key"))
    text = json.loads(receiver.requests[0][1])["text"]
    assert text.splitlines()[0] == "The job yolo has failed."
    assert "&lt;ran&gt;" in text


def test_mail_is_in_the_language_of_its_reader(database: Database, mailbox: Mailbox) -> None:
    mail = MailServer("127.0.0.1", mailbox.port, security="none", sender="mill@example.org")
    notifications = notifications_on(database, mail=mail)
    target = NewTarget(Kind.EMAIL, "ada@example.org", language="zh-Hant")
    delivery = told(database, notifications, target)
    assert (delivery.state, delivery.status) == (DeliveryState.DELIVERED, 250), delivery.problem
    (message,) = mailbox.messages
    assert message["To"] == "ada@example.org"
    assert message["Subject"] == "工作 yolo 失敗了。"
    assert delivery.delivery_id in message["Message-ID"]
    assert "https://mill.example/ui/jobs/1" in message.get_content()


def test_a_mailbox_that_does_not_exist_is_not_tried_again(database: Database, mailbox: Mailbox) -> None:
    mailbox.refusal = "550 no such user"
    mail = MailServer("127.0.0.1", mailbox.port, security="none", sender="mill@example.org")
    delivery = told(database, notifications_on(database, mail=mail), NewTarget(Kind.EMAIL, "no@example.org"))
    assert (delivery.state, delivery.status) == (DeliveryState.FAILED, 550)


def test_a_mail_server_that_is_busy_or_away_is_tried_again(database: Database, mailbox: Mailbox) -> None:
    mailbox.refusal = "451 try later"
    mail = MailServer("127.0.0.1", mailbox.port, security="none", sender="mill@example.org")
    delivery = told(database, notifications_on(database, mail=mail), NewTarget(Kind.EMAIL, "ada@example.org"))
    assert (delivery.state, delivery.status) == (DeliveryState.PENDING, 451)


def test_a_wrong_password_of_the_installation_is_tried_again(database: Database, mailbox: Mailbox) -> None:
    """A user's message is not lost by a fault of the operator, though the server refuses it for good."""
    mail = MailServer("127.0.0.1", mailbox.port, "mill", "wrong", security="none", sender="mill@example.org")
    delivery = told(database, notifications_on(database, mail=mail), NewTarget(Kind.EMAIL, "ada@example.org"))
    assert (delivery.state, delivery.status) == (DeliveryState.PENDING, 535)


def test_mail_that_is_sent_no_more_says_why(database: Database) -> None:
    before, now = notifications_on(database, mail=MailServer("mail.example.org")), notifications_on(database)
    before.targets.add("ada", NewTarget(Kind.EMAIL, "ada@example.org"))
    now.outbox.note(failed_job())
    assert now.outbox.deliver_due() == 1
    (delivery,) = now.outbox.newest("ada")
    assert (delivery.state, delivery.problem) == (DeliveryState.FAILED, "this installation has no mail server")


def test_what_a_dead_process_had_in_hand_is_tried_again(database: Database) -> None:
    notifications, receiver = notifications_on(database), Receiver(200)
    with served(receiver) as url:
        notifications.targets.add("ada", NewTarget(Kind.WEBHOOK, url))
        notifications.outbox.note(failed_job())
        assert notifications.outbox._lease(clock.now())[0], "as a process does that dies then"
        assert notifications.outbox.deliver_due() == 0
        leased, _ = notifications.outbox._lease(clock.now() + timedelta(minutes=2))
        assert [each.state for each, _ in leased] == [DeliveryState.PENDING]
