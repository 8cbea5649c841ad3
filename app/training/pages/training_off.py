"""Where an installation has no cluster the pages of training say so, and to who administers it how to add one."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.web.http import is_fragment
from app.kit.web.live_fragment import reload_page
from app.kit.web.security import SAFE_METHODS
from app.kit.web.templates import render
from app.training.access import training_of

Endpoint = Callable[[Request], Any]


def only_where_on(routes: Sequence[Route]) -> list[Route]:
    return [Route(route.path, _switched(route.endpoint), methods=list(route.methods or ())) for route in routes]


def _switched(endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    @functools.wraps(endpoint)
    async def switched(request: Request) -> Response:
        if not training_of(request).options.is_on:
            return _off(request)
        if inspect.iscoroutinefunction(endpoint):
            response = await endpoint(request)
        else:
            response = await run_in_threadpool(endpoint, request)
        assert isinstance(response, Response)
        return response

    return switched


def _off(request: Request) -> Response:
    if is_fragment(request):  # of a page from before it was switched off
        return reload_page()
    status = 200 if request.method in SAFE_METHODS else 503
    return render(request, "training/off.html", status, area="tasks")
