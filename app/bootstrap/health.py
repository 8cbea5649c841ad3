"""Liveness and readiness of the web process. Neither waits for parts that do not answer.

Liveness depends on no other part: restarting the web server would not repair Redis. Readiness checks Redis, the object
store and the database, in separate threads, so that requests that hang there cannot block it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import anyio
import anyio.to_thread
import redis
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.bootstrap.container import container_of
from app.kit.errors import ModelmillError, Unavailable
from app.kit.web.state import AppState

WITHIN_S = 2.0
PROBES_TOGETHER = 4
NO_ANSWER = f"no answer within {WITHIN_S:g} s"


probe_limiter_of = AppState("probe_limiter", lambda: anyio.CapacityLimiter(PROBES_TOGETHER))


async def healthz(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def readyz(request: Request) -> Response:
    """Answers whether every part is ready.

    Raises:
        Unavailable: One is not; the detail says of each what is wrong with it.
    """
    container, limiter = container_of(request), probe_limiter_of(request)
    checks: dict[str, Callable[[], Any]] = {
        "redis": container.look.ping,
        "object_store": container.objects.check,
        "database": container.database.check,
    }
    problems = await asyncio.gather(*(_find_problem(check, limiter) for check in checks.values()))
    away = {name: problem for name, problem in zip(checks, problems, strict=True) if problem}
    if away:
        summary = "; ".join(f"{name}: {problem}" for name, problem in away.items())
        raise Unavailable(f"Not ready: {summary}", hint="Try again in a moment.", detail=away)
    return JSONResponse({"status": "ok"})


async def _find_problem(check: Callable[[], Any], limiter: anyio.CapacityLimiter) -> str:
    """What is wrong; empty when nothing is."""
    try:
        with anyio.fail_after(WITHIN_S):
            await anyio.to_thread.run_sync(check, limiter=limiter, abandon_on_cancel=True)
    except TimeoutError:
        return NO_ANSWER
    except redis.RedisError as error:
        return NO_ANSWER if isinstance(error, redis.TimeoutError) else "not reachable"
    except ModelmillError as error:
        return error.message
    return ""
