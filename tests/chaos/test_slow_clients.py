"""Clients that stall, trickle or never end their headers hold up nobody else, and are let go."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.harness.deployment import Deployment
from tests.harness.slow_clients import (
    HONEST,
    PAUSE_S,
    PIECE_BYTES,
    PIECES,
    STALLED,
    begin,
    beside,
    status_of,
    upload,
)
from tests.harness.users import person

pytestmark = pytest.mark.slow

PER_USER = 45
IDLE_S = 16.0
ANSWER_S = IDLE_S / 2
"""Whoever waits for a thread that a stalled upload holds waits longer than this."""


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    limits = {"uploads_per_user": str(PER_USER), "upload_idle_s": str(IDLE_S)}
    with Deployment(tmp_path_factory.mktemp("slow"), accounts="true", **limits) as made:
        made.web()
        yield made


def test_stalled_uploads_and_headers_hold_up_nobody_and_slow_lines_come_through(deployment: Deployment) -> None:
    mallory, alice = person(deployment, "mallory"), person(deployment, "alice")
    answers = []

    async def story() -> tuple[list[int], dict[int, int]]:
        async with httpx.AsyncClient(base_url=deployment.url, timeout=ANSWER_S, trust_env=False) as client:

            async def look() -> None:
                for path, headers in (("/healthz", {}), ("/ui/login", {}), ("/api/v2/me", alice.bearer)):
                    answers.append((await client.get(path, headers=headers)).status_code)
                await asyncio.sleep(PAUSE_S)

            return await beside(deployment, mallory, alice, look)

    statuses, ended = asyncio.run(asyncio.wait_for(story(), 120))
    assert statuses == [201] * HONEST
    assert set(answers) == {200}
    assert ended == {408: PER_USER, 429: STALLED - PER_USER}
    with alice.api() as api:
        listed = api.http.get("/api/v2/files", params={"path": "datasets", "limit": 200}).json()
    assert {entry["size_bytes"] for entry in listed["entries"]} == {PIECES * PIECE_BYTES}


def test_nothing_is_left_of_an_upload_that_was_cut_off(deployment: Deployment) -> None:
    mallory = person(deployment, "mallory")

    async def story() -> int:
        return await status_of(await begin(deployment, upload(mallory, "cut", 10**6, "abc")))

    assert asyncio.run(story()) == 408
    home = Path(deployment.settings().homes) / "users" / "mallory"
    deadline = time.monotonic() + 120
    while [path for path in home.rglob("*") if path.is_file()]:
        assert time.monotonic() < deadline, "the part that came is still there"
        time.sleep(0.05)
