"""Sinks of video jobs, what is sent to them, and a receiver of HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

from app.results import store
from app.results.model.producer import Producer
from app.results.model.sink import SentBy, Sink, SinkContent, SinkKind
from app.video.service.producers import producer_of_job
from tests.harness.http_server import respond, served
from tests.harness.video.nodes import USER, Env
from tests.harness.video.records import result

PAST = "2000-01-01T00:00:00.000Z"


class Receiver:
    """status: what it answers. most_bytes: of a body; it answers 413 for more. requests: that it has taken."""

    def __init__(self) -> None:
        self.status = 200
        self.most_bytes = 1 << 30
        self.requests: list[tuple[dict[str, str], str]] = []
        self.url = ""

    def answer(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        self.requests.append(({name.lower(): value for name, value in request.headers.items()}, body.decode()))
        respond(request, status=413 if len(body) > self.most_bytes else self.status)


@contextmanager
def running_receiver(context: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """context: for HTTPS."""
    receiver = Receiver()
    with served(receiver.answer, context=context) as url:
        receiver.url = f"{url}/rows"
        yield receiver


def producer_in(env: Env, uid: str) -> Producer:
    return producer_of_job(env.video.jobs.get(USER, uid))


def take(env: Env, uid: str, *numbers: int) -> None:
    """Reports with a row each, every second one with a person; a minute apart."""
    for n in numbers:
        boxes = [[10.0, 20.0, 30.0, 60.0]] if n % 2 == 0 else []
        facts = {"bbox": boxes, "labels": ["person"] * len(boxes), "scores": [0.9] * len(boxes), "size": [100, 100]}
        row = {**result(n), "at": env.now.timestamp(), **facts}
        report: Any = {"job_uid": uid, "seq": n, "results": [row]}
        env.reports.take(report, node="edge0", user="", now=env.now)
        env.later(60)


def take_large(env: Env, uid: str, n: int, boxes: int) -> None:
    """Reports a row with so many boxes, each of which makes a message about 60 bytes longer."""
    row = {**result(n), "at": env.now.timestamp(), "bbox": [[0, 0, 1, 1]] * boxes}
    report: Any = {"job_uid": uid, "seq": n, "results": [row]}
    env.reports.take(report, node="edge0", user="", now=env.now)
    env.later(60)


def add(
    env: Env,
    uid: str,
    kind: SinkKind,
    address: str,
    content: SinkContent = SinkContent.ROWS,
    sent_by: SentBy = SentBy.SERVER,
) -> Sink:
    sinks = env.container.results.sinks
    return sinks.add(producer_in(env, uid), kind, content, address, sent_by=sent_by, now=env.now)


def due(env: Env, uid: str) -> None:
    """As if the pauses were over."""
    with env.container.database.write() as conn:
        for sink in store.sinks_of(conn, uid):
            store.change_sink(conn, sink.sink_id, due_at=PAST)


def deliver(env: Env, uid: str) -> None:
    due(env, uid)
    env.container.results.sinks.deliver_due()


def sinks_of(env: Env, uid: str) -> list[Sink]:
    return env.container.results.sinks.of(producer_in(env, uid))


def state(env: Env, uid: str) -> tuple[str, int, int, str]:
    (one,) = sinks_of(env, uid)
    return one.word, one.delivered, one.queued, one.problem
