"""What others wait for beside 500 stalled uploads, 500 headers that never end and 40 slow uploads that come through.

The same requests are timed before these come and beside them: /healthz, a page, and one's own account by token.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path

import httpx

from tests.harness.deployment import Deployment, percentile
from tests.harness.slow_clients import HEADERS, HONEST, STALLED, honest_uploads, stalled_clients
from tests.harness.users import Person, person

QUIET_ROUNDS = 100
GAP_S = 0.02
Times = dict[str, list[float]]
"""Path → milliseconds until the whole answer."""


def main() -> None:
    settings = {"uploads_per_user": "45", "upload_idle_s": "6"}
    with tempfile.TemporaryDirectory() as folder, Deployment(Path(folder), accounts="true", **settings) as deployment:
        deployment.web()
        asyncio.run(_measure(deployment, person(deployment, "mallory"), person(deployment, "alice")))


async def _measure(deployment: Deployment, mallory: Person, alice: Person) -> None:
    quiet: Times = defaultdict(list)
    crowded: Times = defaultdict(list)
    async with httpx.AsyncClient(base_url=deployment.url, timeout=30, trust_env=False) as client:
        for _ in range(QUIET_ROUNDS):
            await _look(client, alice, quiet)
        async with stalled_clients(deployment, mallory) as stalled:
            statuses = await honest_uploads(deployment, alice, lambda: _look(client, alice, crowded))
            ended = Counter(await asyncio.gather(*stalled))
    arrived = statuses.count(201)
    print(f"\nbeside {STALLED} stalled uploads, {HEADERS} headers without end, {HONEST} slow ones ({arrived} arrived)")
    print(f"stalled uploads: {', '.join(f'{count} × {status}' for status, count in sorted(ended.items()))}")
    print("| path | alone: p50, p95, longest (ms) | beside them: p50, p95, longest (ms) |\n|---|---|---|")
    for path in quiet:
        print(f"| {path} | {_row(quiet[path])} | {_row(crowded[path])} |")


async def _look(client: httpx.AsyncClient, alice: Person, times: Times) -> None:
    for path, headers in (("/healthz", {}), ("/ui/login", {}), ("/api/v2/me", alice.bearer)):
        began = time.perf_counter()
        (await client.get(path, headers=headers)).raise_for_status()
        times[path].append((time.perf_counter() - began) * 1000)
    await asyncio.sleep(GAP_S)


def _row(times: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in (percentile(times, 0.5), percentile(times, 0.95), max(times)))
