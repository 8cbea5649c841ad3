"""Waking: by a message, a notification or a bell; while Redis is away nobody is kept from anything."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable

import pytest

from app.kit.queue.blocking_broker import BlockingBroker
from app.kit.queue.broker import connect, make_broker
from app.kit.queue.messages import Message
from app.kit.queue.waker import BELL_TTL_S, WAITING_TTL_S, Waker
from tests.harness.valkey import Valkey

BELL = "a:bell"


def waker_of(valkey: Valkey) -> tuple[Waker, BlockingBroker]:
    broker = make_broker(valkey.url(1))
    return Waker(connect(valkey.url(0)), broker), broker


def test_a_message_waits_on_its_queue(valkey: Valkey) -> None:
    waker, broker = waker_of(valkey)
    waker.send(Message.RECONCILE, uid="u1")
    (text,) = broker.client.hvals("queue:joint.msgs")
    sent = json.loads(text)
    assert (sent["actor_name"], sent["queue_name"], sent["kwargs"]) == ("reconcile", "joint", {"uid": "u1"})
    broker.close()


def test_a_message_that_waits_is_not_sent_twice_but_again_once_its_actor_has_begun(valkey: Valkey) -> None:
    waker, broker = waker_of(valkey)
    for uid in ("", "u1", "", "u1"):
        waker.send_once(Message.RECONCILE_VIDEO, uid=uid)
    assert len(broker.client.hvals("queue:video.msgs")) == 2
    waker.begun(Message.RECONCILE_VIDEO, uid="")
    for uid in ("", "u1"):
        waker.send_once(Message.RECONCILE_VIDEO, uid=uid)
    assert len(broker.client.hvals("queue:video.msgs")) == 3
    assert all(0 < valkey.client.ttl(key) <= WAITING_TTL_S for key in valkey.client.keys("waiting:*"))
    broker.close()


def test_many_rings_are_as_good_as_one_and_are_forgotten(valkey: Valkey) -> None:
    waker, broker = waker_of(valkey)
    for _ in range(3):
        waker.ring(BELL)
    assert valkey.client.llen(BELL) == 1
    assert 0 < valkey.client.ttl(BELL) <= BELL_TTL_S
    broker.close()


def test_who_watches_a_record_is_told_of_it(valkey: Valkey) -> None:
    waker, broker = waker_of(valkey)
    with valkey.client.pubsub() as watcher:
        watcher.subscribe("nudge:video:u1", "nudge:video")
        waker.notify("video:u1", "video")
        heard = [watcher.get_message(timeout=60) for _ in range(4)]
    assert [message["channel"] for message in heard if message and message["type"] == "message"] == [
        b"nudge:video:u1",
        b"nudge:video",
    ]
    broker.close()


@pytest.mark.parametrize(
    ("wake", "who"),
    [
        (lambda waker: waker.send(Message.PLAN_VIDEO, uid="u1", why="start"), "plan_video u1 start"),
        (lambda waker: waker.notify("node:edge0"), "node:edge0"),
        (lambda waker: waker.ring(BELL), BELL),
    ],
)
def test_while_redis_is_away_the_log_says_who_looks_a_little_later(
    own_valkey: Valkey, caplog: pytest.LogCaptureFixture, wake: Callable[[Waker], None], who: str
) -> None:
    waker, broker = waker_of(own_valkey)
    own_valkey.kill()
    with caplog.at_level(logging.DEBUG, "app.kit.queue.waker"):
        wake(waker)
    (record,) = caplog.records
    assert record.getMessage().startswith(f"Not woken, and looks by itself a little later: {who} (")
    broker.close()
