"""Request bodies: how long, how slowly and how many at a time they may arrive."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.types import Message

from app.kit.web.body_limits import Body, BodyLimits, BodyTooSlow, Slots, TooManyUploads, UploadLimits
from tests.harness import virtual_time

LIMITS = UploadLimits(per_user=2, at_once=3, idle_s=0.05, least_bytes_per_s=1000)


def request_of(user: str = "alice", limits: UploadLimits = LIMITS) -> Request:
    app = Starlette()
    app.state.upload_limits = limits
    state = {"caller": SimpleNamespace(user=user, node="")} if user else {}
    return Request({"type": "http", "app": app, "state": state, "client": ("10.0.0.7", 1), "headers": []})


class Sender:
    """Sends what it is told, each part after its pause; then it is silent."""

    def __init__(self, *parts: tuple[float, bytes], ends: bool = True) -> None:
        self.parts = list(parts)
        self.ends = ends

    async def receive(self) -> Message:
        if not self.parts:
            await asyncio.Event().wait()
        pause_s, data = self.parts.pop(0)
        await asyncio.sleep(pause_s)
        return {"type": "http.request", "body": data, "more_body": bool(self.parts) or not self.ends}


async def read(body: Body) -> bytes:
    whole = b""
    while True:
        message = await body.receive()
        whole += message.get("body", b"")
        if not message.get("more_body", False):
            return whole


def body_of(sender: Sender, slots: Slots, **request: Any) -> Body:
    return Body(request_of(**request), sender.receive, slots)


def test_a_body_that_comes_is_passed_on_and_gives_its_slot_back() -> None:
    slots = Slots()
    for _ in range(4):
        parts = [(0.0, b"a" * 100), (0.0, b"b" * 100), (0.0, b"c")]
        assert len(virtual_time.run(read(body_of(Sender(*parts), slots)))) == 201
    slots.take("user alice", most=1, most_in_all=1)


def test_a_sender_that_stops_is_cut_off() -> None:
    body = body_of(Sender((0.0, b"abc"), ends=False), Slots())
    with pytest.raises(BodyTooSlow, match=r"Nothing of the body came for 0\.05 s"):
        virtual_time.run(read(body))
    assert body.is_refused


def test_a_sender_that_trickles_is_cut_off_once_it_was_waited_for_as_long_as_it_may_pause() -> None:
    trickle = Sender(*[(0.02, b"x")] * 50)
    with pytest.raises(BodyTooSlow, match="bytes a second, less than 1000"):
        virtual_time.run(read(body_of(trickle, Slots())))
    assert len(trickle.parts) > 30


def test_the_time_in_which_the_server_does_not_read_is_not_the_senders() -> None:
    async def read_slowly(body: Body) -> None:
        while (await body.receive()).get("more_body"):
            await asyncio.sleep(0.03)

    virtual_time.run(read_slowly(body_of(Sender(*[(0.0, b"x")] * 5), Slots())))


def test_one_user_has_so_many_and_another_has_theirs() -> None:
    async def story() -> None:
        slots = Slots()
        stalled = [body_of(Sender((0.0, b"abc"), ends=False), slots) for _ in range(3)]
        for body in stalled[:2]:
            assert (await body.receive())["more_body"]
        with pytest.raises(TooManyUploads, match="2 uploads of yours"):
            await stalled[2].receive()
        assert await read(body_of(Sender((0.0, b"a"), (0.0, b"b")), slots, user="bob")) == b"ab"
        stalled[0].release()
        assert await read(body_of(Sender((0.0, b"a"), (0.0, b"b")), slots)) == b"ab"

    virtual_time.run(story())


def test_all_together_have_so_many() -> None:
    slots = Slots()
    for user in ("alice", "bob", "carol"):
        slots.take(user, most=2, most_in_all=3)
    with pytest.raises(TooManyUploads, match="as many uploads as it can"):
        slots.take("dave", most=2, most_in_all=3)


def test_where_nobody_signs_in_the_limit_is_an_addresss() -> None:
    async def story() -> None:
        slots = Slots()
        for _ in range(2):
            await body_of(Sender((0.0, b"abc"), ends=False), slots, user="").receive()
        with pytest.raises(TooManyUploads):
            await body_of(Sender((0.0, b"abc"), ends=False), slots, user="").receive()

    virtual_time.run(story())


def test_a_small_body_that_comes_at_once_needs_no_slot() -> None:
    slots = Slots()
    for _ in range(2):
        slots.take("user alice", most=2, most_in_all=2)
    assert virtual_time.run(read(body_of(Sender((0.0, b"{}")), slots))) == b"{}"


@pytest.mark.parametrize(("parts", "closes"), [(1, False), (3, True)])
def test_the_connection_of_a_body_that_was_cut_off_is_closed(parts: int, closes: bool) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        status = 200
        try:
            while (await receive()).get("more_body"):
                pass
        except TooManyUploads:
            status = 429
        await send({"type": "http.response.start", "status": status, "headers": []})

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    request = request_of(limits=UploadLimits(per_user=0, at_once=9, idle_s=9, least_bytes_per_s=0))
    virtual_time.run(BodyLimits(application)(request.scope, Sender(*[(0.0, b"x")] * parts).receive, send))
    assert ((b"connection", b"close") in sent[0]["headers"]) is closes
