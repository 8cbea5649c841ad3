"""Clients that stall, trickle or never end their headers hold up nobody else, and are let go."""

from __future__ import annotations

import asyncio
from collections import Counter
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
    honest_uploads,
    stalled_clients,
    status_of,
    upload,
)
from tests.harness.until import until, until_async
from tests.harness.users import person

pytestmark = pytest.mark.slow

PER_USER = 45
NEVER_S = 3600.0
"""Whoever waits for a thread that a stalled upload holds, waits for good."""


def test_stalled_uploads_and_headers_hold_up_nobody_and_slow_lines_come_through(tmp_path: Path) -> None:
    limits = {"uploads_per_user": str(PER_USER), "upload_idle_s": str(NEVER_S)}
    answers = []
    with Deployment(tmp_path, accounts="true", **limits) as deployment:
        deployment.web()
        mallory, alice = person(deployment, "mallory"), person(deployment, "alice")

        async def story() -> tuple[list[int], Counter[int]]:
            async with (
                httpx.AsyncClient(base_url=deployment.url, trust_env=False) as client,
                stalled_clients(deployment, mallory) as stalled,
            ):

                async def look() -> None:
                    for path, headers in (("/healthz", {}), ("/ui/login", {}), ("/api/v2/me", alice.bearer)):
                        answers.append((await client.get(path, headers=headers)).status_code)
                    await asyncio.sleep(PAUSE_S)

                statuses = await honest_uploads(deployment, alice, look)
                await until_async(lambda: sum(not task.done() for task in stalled) <= PER_USER)
                return statuses, Counter(task.result() for task in stalled if task.done())

        statuses, refused = asyncio.run(story())
        with alice.api() as api:
            listed = api.http.get("/api/v2/files", params={"path": "datasets", "limit": 200}).json()
    assert statuses == [201] * HONEST
    assert set(answers) == {200}
    assert refused == {429: STALLED - PER_USER}
    assert {entry["size_bytes"] for entry in listed["entries"]} == {PIECES * PIECE_BYTES}


def test_uploads_that_stall_are_cut_off_and_nothing_is_left_of_them(tmp_path: Path) -> None:
    with Deployment(tmp_path, accounts="true", upload_idle_s="0.5") as deployment:
        deployment.web()
        mallory = person(deployment, "mallory")

        async def story() -> list[int]:
            begun = [await begin(deployment, upload(mallory, f"cut-{number}", 10**6, "abc")) for number in range(3)]
            return [await status_of(connection) for connection in begun]

        assert asyncio.run(story()) == [408] * 3
        home = Path(deployment.settings().homes) / "users" / "mallory"
        until(lambda: not [path for path in home.rglob("*") if path.is_file()], what="what came is removed")
