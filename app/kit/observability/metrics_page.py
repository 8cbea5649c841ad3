"""GET /metrics: all metrics in the Prometheus format. Answers within seconds even if Redis stalls."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import anyio.to_thread
from anyio import CapacityLimiter
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from app.kit.errors import Unauthorized
from app.kit.network.bearer import has_bearer
from app.kit.observability.metrics import LOCAL
from app.kit.web.state import AppState, web_settings_of

SCRAPES_TOGETHER = 2
"""Concurrent scrapes. They have their own threads, so that requests that wait for Redis cannot block them."""

collectors_of: AppState[Iterable[Collector]] = AppState("collectors")
scrape_limiter_of = AppState("scrape_limiter", lambda: CapacityLimiter(SCRAPES_TOGETHER))


def exposition(collectors: Iterable[Collector]) -> bytes:
    """Returns the current values of the collectors and the counts of this process, as text."""
    now = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        now.register(collector)
    return generate_latest(now) + generate_latest(LOCAL)


async def metrics(request: Request) -> Response:
    """Runs the collectors in a thread."""
    require_token(request, web_settings_of(request).metrics_token.get_secret_value())
    limiter = scrape_limiter_of(request)
    text = await anyio.to_thread.run_sync(
        partial(exposition, collectors_of(request)), limiter=limiter, abandon_on_cancel=True
    )
    return Response(text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4, "Cache-Control": "no-store"})


def require_token(request: Request, token: str) -> None:
    """Checks the token of the request; without a configured one everybody may read.

    Raises:
        Unauthorized: It is missing or another.
    """
    if token and not has_bearer(request.headers, token):
        raise Unauthorized("The metrics are for bearers of the token only.", hint="Send Authorization: Bearer <token>.")
