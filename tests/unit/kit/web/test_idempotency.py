"""A request that comes twice with one Idempotency-Key is carried out once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import redis
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.kit.errors import Conflict
from app.kit.redis.lease import RedisLease
from app.kit.web import idempotency
from app.kit.web.auth import Caller
from app.kit.web.http import EXCEPTION_HANDLERS
from app.kit.web.idempotency import HEADER, REPLAYED, AnswerCache, form_once, once
from tests.harness.api import code_of
from tests.harness.valkey import Valkey

KEY = {HEADER: "one"}
LONG_MS = 60_000


class AsCaller:
    """Whoever the header User names."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope)
        request.state.caller = Caller(request.headers.get("user", "alice"))
        await self.app(scope, receive, send)


class Things:
    """Makes a numbered thing of each body. is_full: refuses to."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.is_full = False
        self.began, self.may_end = asyncio.Event(), asyncio.Event()
        self.may_end.set()

    async def make(self, request: Request) -> Response:
        body = await request.body()
        self.began.set()
        await self.may_end.wait()
        if self.is_full:
            raise Conflict("There is no room.")
        self.bodies.append(body)
        answer = {"number": len(self.bodies), "token": "a-secret"}
        return JSONResponse(answer, 201, {"Location": f"/things/{len(self.bodies)}", "Cache-Control": "no-store"})

    async def make_and_show(self, request: Request) -> Response:
        made = await self.make(request)
        return RedirectResponse(made.headers["location"], 303)


@pytest.fixture
def client(valkey: Valkey) -> Iterator[redis.Redis]:
    made = redis.Redis.from_url(valkey.url(0))
    yield made
    made.close()


@pytest.fixture
def things() -> Things:
    return Things()


@pytest.fixture
def app(things: Things, client: redis.Redis) -> Starlette:
    routes = [Route(path, once(things.make), methods=["POST"]) for path in ("/things", "/others")]
    routes.append(Route("/form", form_once(things.make_and_show), methods=["POST"]))
    made = Starlette(routes=routes, middleware=[Middleware(AsCaller)], exception_handlers=EXCEPTION_HANDLERS)
    made.state.kept_answers = AnswerCache(client, "the secret")
    return made


async def send(app: Starlette, path: str = "/things", **options: Any) -> httpx.Response:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here") as http:
        return await http.post(path, **options)


def post(app: Starlette, path: str = "/things", **options: Any) -> httpx.Response:
    return asyncio.run(send(app, path, **options))


def test_the_first_answer_is_given_again_and_nothing_is_done_again(app: Starlette, things: Things) -> None:
    first, again = (post(app, content=b"body", headers=KEY) for _ in range(2))
    assert things.bodies == [b"body"]
    assert (again.status_code, again.content) == (first.status_code, first.content)
    assert again.headers["location"] == first.headers["location"] == "/things/1"
    assert again.headers["cache-control"] == "no-store"
    assert (REPLAYED in first.headers, again.headers[REPLAYED]) == (False, "true")


def test_without_a_key_each_request_counts(app: Starlette, things: Things) -> None:
    assert [post(app, content=b"body").json()["number"] for _ in range(2)] == [1, 2]


@pytest.mark.parametrize(
    ("body", "query"), [(b"bodY", ""), (b"bod", ""), (b"body and more", ""), (b"body", "?apply=1")]
)
def test_the_same_key_with_another_request_is_refused(app: Starlette, things: Things, body: bytes, query: str) -> None:
    post(app, content=b"body", headers=KEY)
    assert code_of(post(app, f"/things{query}", content=body, headers=KEY)) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert things.bodies == [b"body"]


@pytest.mark.parametrize("other", [{"headers": {**KEY, "User": "bob"}}, {"path": "/others", "headers": KEY}])
def test_a_key_is_of_one_caller_and_one_path(app: Starlette, things: Things, other: dict[str, Any]) -> None:
    post(app, content=b"body", headers=KEY)
    assert post(app, content=b"body", **other).json()["number"] == 2


def test_what_failed_may_be_sent_again(app: Starlette, things: Things) -> None:
    things.is_full = True
    assert code_of(post(app, content=b"body", headers=KEY)) == (409, "CONFLICT")
    things.is_full = False
    assert post(app, content=b"body", headers=KEY).json()["number"] == 1


def test_a_twin_of_what_is_under_way_is_told_to_come_again(app: Starlette, things: Things) -> None:
    async def both() -> tuple[httpx.Response, httpx.Response]:
        things.may_end.clear()
        first = asyncio.create_task(send(app, content=b"body", headers=KEY))
        await things.began.wait()
        twin = await send(app, content=b"body", headers=KEY)
        things.may_end.set()
        return await first, twin

    first, twin = asyncio.run(both())
    assert code_of(twin) == (409, "IDEMPOTENCY_KEY_IN_USE")
    assert twin.headers["retry-after"] == "1"
    assert post(app, content=b"body", headers=KEY).content == first.content
    assert things.bodies == [b"body"]


def test_the_boundary_of_a_multipart_body_does_not_count(app: Starlette, things: Things) -> None:
    files = {"model": ("model.onnx", b"x" * 100_000)}
    first, again = (post(app, files=files, headers=KEY) for _ in range(2))
    assert first.request.headers["content-type"] != again.request.headers["content-type"]
    assert again.content == first.content
    changed = post(app, files={"model": ("model.onnx", b"y" * 100_000)}, headers=KEY)
    assert code_of(changed) == (409, "IDEMPOTENCY_KEY_REUSED")


def test_what_is_kept_is_read_by_no_one_without_the_secret(app: Starlette, things: Things, client: redis.Redis) -> None:
    post(app, content=b"body", headers=KEY)
    kept = {name: client.get(name) for name in client.keys("idempotency:*")}  # type: ignore[union-attr]
    assert len(kept) == 1
    assert not [name for name, text in kept.items() if b"one" in name or b"a-secret" in (text or b"")]
    app.state.kept_answers = AnswerCache(client, "another secret")
    answer = post(app, content=b"body", headers=KEY)
    assert code_of(answer) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert "secret key" in answer.json()["error"]["message"]
    assert len(things.bodies) == 1


@pytest.mark.parametrize("key", ["", "x" * 201, "schlüssel"])
def test_a_key_that_is_none_is_refused(app: Starlette, key: str) -> None:
    answer = post(app, content=b"body", headers={HEADER: key.encode("latin-1")})
    assert code_of(answer) == (422, "BAD_INPUT")
    assert answer.json()["error"]["detail"]["problems"][0]["at"] == HEADER


def test_a_request_that_takes_long_keeps_its_key(
    app: Starlette, things: Things, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idempotency, "LEASE_S", 0.3)  # it is renewed three times in that
    monkeypatch.setattr(RedisLease, "_ttl_ms", LONG_MS)

    async def long() -> None:
        things.may_end.clear()
        first = asyncio.create_task(send(app, content=b"body", headers=KEY))
        await things.began.wait()
        lease = next(client.scan_iter("idempotency:*:lease"))
        least, left = LONG_MS, client.pttl(lease)
        while left <= least:  # it only falls, unless it is renewed
            assert left >= 0, "the lease ran out"
            await asyncio.sleep(0.01)
            least, left = left, client.pttl(lease)
        assert code_of(await send(app, content=b"body", headers=KEY)) == (409, "IDEMPOTENCY_KEY_IN_USE")
        things.may_end.set()
        await first

    asyncio.run(long())
    assert things.bodies == [b"body"]


def test_what_is_created_is_said_even_if_redis_takes_nothing_meanwhile(
    app: Starlette, things: Things, valkey: Valkey
) -> None:
    async def meanwhile() -> httpx.Response:
        things.may_end.clear()
        first = asyncio.create_task(send(app, content=b"body", headers=KEY))
        await things.began.wait()
        own = redis.Redis(port=valkey.port)
        own.config_set("min-replicas-to-write", "1")  # it takes nothing more
        try:
            things.may_end.set()
            return await first
        finally:
            own.config_set("min-replicas-to-write", "0")
            own.close()

    assert asyncio.run(meanwhile()).status_code == 201


# --- forms ---
FORM = "/form?once=a-key"


def test_a_form_that_is_sent_twice_leads_to_the_same_page(app: Starlette, things: Things) -> None:
    first, again = (post(app, FORM, data={"name": "x"}) for _ in range(2))
    assert (first.status_code, first.headers["location"]) == (303, "/things/1")
    assert (again.status_code, again.headers["location"]) == (303, "/things/1")
    assert things.bodies == [b"name=x"]


def test_a_form_that_was_changed_or_has_no_key_is_a_new_one(app: Starlette, things: Things) -> None:
    sent = [post(app, FORM, data={"name": name}).headers["location"] for name in "xyx"]
    assert sent == ["/things/1", "/things/2", "/things/1"]
    assert [post(app, "/form", data={"name": "x"}).headers["location"] for _ in range(2)] == ["/things/3", "/things/4"]


def test_a_double_click_waits_for_the_first(app: Starlette, things: Things) -> None:
    async def both() -> tuple[httpx.Response, httpx.Response]:
        things.may_end.clear()
        first = asyncio.create_task(send(app, FORM, content=b"body"))
        await things.began.wait()
        twin = asyncio.create_task(send(app, FORM, content=b"body"))
        await asyncio.sleep(0.05)
        things.may_end.set()
        return await first, await twin

    first, twin = asyncio.run(both())
    assert first.headers["location"] == twin.headers["location"] == "/things/1"
    assert things.bodies == [b"body"]


def test_a_form_with_large_files_is_carried_out_once_too(app: Starlette, things: Things) -> None:
    large = b"x" * (idempotency.MAX_COMPARED_BYTES + 1)
    assert [post(app, FORM, content=large).headers["location"] for _ in range(2)] == ["/things/1"] * 2
    assert code_of(post(app, FORM, content=large[1:] + b"y")) == (409, "IDEMPOTENCY_KEY_REUSED")
    assert len(things.bodies) == 1


def test_a_form_that_was_refused_may_be_sent_again(app: Starlette, things: Things) -> None:
    things.is_full = True
    assert post(app, FORM, content=b"body").status_code == 409
    things.is_full = False
    assert post(app, FORM, content=b"body").headers["location"] == "/things/1"
