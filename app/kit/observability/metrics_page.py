"""GET /metrics: everything that is known, as Prometheus reads it. Answers within seconds also while Redis stalls."""

from __future__ import annotations

import hmac
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
from app.kit.observability.metrics import LOCAL
from app.kit.web.state import AppState, web_settings_of

SCRAPES_TOGETHER = 2
"""Scrapes at once. They have threads of their own, so that requests that wait for Redis cannot keep them out."""

collectors_of: AppState[Iterable[Collector]] = AppState("collectors")
scrape_limiter_of = AppState("scrape_limiter", lambda: CapacityLimiter(SCRAPES_TOGETHER))


def exposition(collectors: Iterable[Collector]) -> bytes:
    """What the collectors find now and what this process counted, as text."""
    now = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        now.register(collector)
    return generate_latest(now) + generate_latest(LOCAL)


async def metrics(request: Request) -> Response:
    """The collectors find out what is to be known now, in a thread."""
    require_token(request, web_settings_of(request).metrics_token.get_secret_value())
    limiter = scrape_limiter_of(request)
    text = await anyio.to_thread.run_sync(
        partial(exposition, collectors_of(request)), limiter=limiter, abandon_on_cancel=True
    )
    return Response(text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4, "Cache-Control": "no-store"})


def require_token(request: Request, token: str) -> None:
    """Raises Unauthorized unless the request bears the token; without a token everybody may read."""
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    if token and not (scheme.lower() == "bearer" and hmac.compare_digest(given.strip().encode(), token.encode())):
        raise Unauthorized("The metrics are for bearers of the token only.", hint="Send Authorization: Bearer <token>.")
