"""What the web is to be told, while the agent's own disk has no room."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import cast

from modelmill_client import errors

from app.edge.agent.outbox import Outbox
from app.edge.agent.report_store import DroppedReports
from app.edge.agent.store import AgentStore
from app.edge.agent.web_client import WebClient
from app.kit.cli.api_client import ApiError
from app.kit.clock import from_text
from tests.harness.until import until_async


class Listener:
    """It takes everything."""

    token = "mn"
    is_refused = False

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def post(self, _: str, body: bytes, __: str) -> None:
        self.heard.append(body)


async def _tell_with_a_full_disk(store: AgentStore, listener: Listener) -> None:
    outbox = Outbox(store.reports, cast(WebClient, listener))
    outbox.push("/a", b"x", "text/plain")
    store._db.execute("PRAGMA query_only = ON")  # fails as a disk without room does
    running = asyncio.create_task(outbox.run())
    await until_async(lambda: listener.heard)
    store._db.execute("PRAGMA query_only = OFF")
    outbox.wake()
    await until_async(lambda: running.done() or store.reports.oldest() is None)
    assert not running.done()
    running.cancel()


def test_a_disk_without_room_ends_no_agent(tmp_path: Path) -> None:
    store, listener = AgentStore(tmp_path / "agent.db", "edge0"), Listener()
    asyncio.run(_tell_with_a_full_disk(store, listener))
    assert set(listener.heard) == {b"x"}
    store.close()


class Evicting(Listener):
    """It takes the node's token no more, until `is_back`."""

    def __init__(self) -> None:
        super().__init__()
        self.tries = 0
        self.is_back = False

    async def post(self, path: str, body: bytes, content_type: str) -> None:
        self.tries += 1
        if not self.is_back:
            raise ApiError(errors.ApiError(401, {"code": "UNAUTHORIZED", "message": "This token is not valid."}))
        await super().post(path, body, content_type)


async def _tell_after_an_eviction(store: AgentStore, web: Evicting) -> None:
    outbox = Outbox(store.reports, cast(WebClient, web))
    running = asyncio.create_task(outbox.run())
    outbox.push("/a", b"first", "text/plain")
    await until_async(lambda: web.tries == 1)
    for number in range(20):
        outbox.push("/a", b"%d" % number, "text/plain")
        await asyncio.sleep(0)
    for _ in range(20):
        outbox.wake()
        await asyncio.sleep(0.01)
    assert web.tries == 1, "failed log-ins are counted: it would lock its own machine out"
    web.is_back, web.is_refused = True, False
    outbox.wake()
    await until_async(lambda: store.reports.oldest() is None)
    running.cancel()


def test_an_evicted_node_keeps_its_reports_and_tries_no_more(tmp_path: Path) -> None:
    store, web = AgentStore(tmp_path / "agent.db", "edge0"), Evicting()
    asyncio.run(_tell_after_an_eviction(store, web))
    assert web.heard == [b"first", *(b"%d" % number for number in range(20))]
    store.close()


class Refusing(Listener):
    """It refuses what is of a job that it does not know."""

    async def post(self, path: str, body: bytes, content_type: str) -> None:
        if path == "/jobs/gone":
            message = f"There is no job {body.decode()}. {'x' * 1000}"
            raise ApiError(errors.ApiError(404, {"code": "NOT_FOUND", "message": message}))
        await super().post(path, body, content_type)


async def _tell_of_jobs(store: AgentStore, web: Refusing) -> None:
    outbox = Outbox(store.reports, cast(WebClient, web))
    for path, body in (("/jobs/gone", b"1"), ("/jobs/kept", b"2"), ("/jobs/gone", b"3")):
        outbox.push(path, body, "text/plain")
    running = asyncio.create_task(outbox.run())
    await until_async(lambda: store.reports.oldest() is None)
    running.cancel()


def test_what_the_web_refuses_is_dropped_and_counted_with_the_last_reason(tmp_path: Path) -> None:
    store, web = AgentStore(tmp_path / "agent.db", "edge0"), Refusing()
    assert (store.reports.refused, store.reports.refusal) == (DroppedReports(0, ""), "")
    asyncio.run(_tell_of_jobs(store, web))
    store.close()
    restarted = AgentStore(tmp_path / "agent.db", "edge0")
    assert web.heard == [b"2"]
    assert (restarted.reports.refused.count, restarted.reports.lost.count) == (2, 0)
    assert from_text(restarted.reports.refused.last_at)
    assert (
        restarted.reports.refusal.startswith("NOT_FOUND: There is no job 3. xxx")
        and len(restarted.reports.refusal) == 300
    )
    restarted.close()


class WithoutRoom(Listener):
    """It has no room for pictures, until `has_room`."""

    has_room = False

    async def post(self, path: str, body: bytes, content_type: str) -> None:
        if path == "/picture" and not self.has_room:
            raise ApiError(errors.ApiError(507, {"code": "STORE_FULL", "message": "The store is full."}))
        await super().post(path, body, content_type)


async def _tell_without_room(store: AgentStore, web: WithoutRoom) -> None:
    problems = list[str]()
    outbox = Outbox(store.reports, cast(WebClient, web), lambda: problems.append(outbox.delivery_problem))
    outbox.push("/picture", b"old", "image/jpeg", replaces="picture:1")
    outbox.push("/rows", b"1", "text/plain")
    running = asyncio.create_task(outbox.run())
    await until_async(lambda: web.heard == [b"1"])
    outbox.push("/picture", b"new", "image/jpeg", replaces="picture:1")
    outbox.push("/rows", b"2", "text/plain")
    await until_async(lambda: web.heard == [b"1", b"2"] and outbox.delivery_problem == "The store is full")
    web.has_room = True
    outbox.wake()
    await until_async(lambda: store.reports.oldest() is None and not outbox.delivery_problem)
    running.cancel()
    assert problems == ["The store is full", ""]


def test_a_picture_for_which_the_web_has_no_room_waits_and_holds_up_no_rows(tmp_path: Path) -> None:
    store, web = AgentStore(tmp_path / "agent.db", "edge0"), WithoutRoom()
    asyncio.run(_tell_without_room(store, web))
    assert web.heard == [b"1", b"2", b"new"]
    assert store.reports.refused.count == 0
    store.close()
