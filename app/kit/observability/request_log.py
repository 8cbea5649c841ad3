"""Records each request: an id in the logs, a count, a time, a span, one line at its end.

The id comes from X-Request-ID or is generated, and is returned under the same name.
"""

from __future__ import annotations

import logging
import re
import time
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.kit.observability import logs, metrics, tracing
from app.kit.observability.metrics import HTTP_REQUESTS, HTTP_SECONDS
from app.kit.web.http import REQUEST_ID

QUIET = ("/healthz", "/readyz", "/metrics", "/static")
"""Polled constantly by machines, or no work of ours: not traced."""
NO_ROUTE = "none"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_ACCEPTED_ID = re.compile(r"[A-Za-z0-9_.:+/=-]{1,128}")
logger = logging.getLogger(__name__)


class RequestLog:
    """
    Args:
        path_fields: path parameters that the logs include.
    """

    def __init__(self, app: ASGIApp, path_fields: tuple[str, ...] = ()) -> None:
        self.app = app
        self.path_fields = path_fields

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id = scope["request_id"] = _request_id(scope)
        # A path parameter is unknown until the request has been routed.
        fields: dict[str, logs.Value] = {name: partial(_read_parameter, scope, name) for name in self.path_fields}
        with _open_span(scope), logs.context(**fields, request_id=request_id, trace_id=tracing.trace_id()):
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        begin = time.perf_counter()
        is_logged = False

        async def send_seen(message: Message) -> None:
            nonlocal is_logged
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = scope["request_id"]
                _tell(scope, message["status"], time.perf_counter() - begin)
                is_logged = True
            await send(message)

        try:
            await self.app(scope, receive, send_seen)
        except Exception:  # it is logged and goes on
            if not is_logged:
                _tell(scope, 500, time.perf_counter() - begin)
            raise


def _tell(scope: Scope, status: int, took_s: float) -> None:
    method, route = scope["method"] if scope["method"] in METHODS else "other", _find_route(scope)
    HTTP_REQUESTS.labels(method, route, str(status)).inc()
    HTTP_SECONDS.labels(method, route).observe(took_s)
    metrics.note()
    if tracing.is_on() and not scope["path"].startswith(QUIET):
        attributes = {"http.route": route, "http.response.status_code": status}
        tracing.note(f"{method} {route}", **attributes, **scope.get("path_params", {}))
    level = logging.ERROR if status >= 500 else logging.INFO
    if status < 400 and method in ("GET", "HEAD"):
        level = logging.DEBUG
    if logger.isEnabledFor(level):
        # The path without its query, which contains the signature of a signed link.
        facts = {"method": method, "path": scope["path"], "status": status, "duration_ms": round(1000 * took_s, 1)}
        logger.log(level, "%s %s was answered %d.", method, route, status, extra=facts)


def _find_route(scope: Scope) -> str:
    """Returns the template of the route, so that there is one series per route and not per job."""
    return getattr(scope.get("route"), "path", None) or NO_ROUTE


def _read_parameter(scope: Scope, name: str) -> str | None:
    value = scope.get("path_params", {}).get(name)
    return value if isinstance(value, str) else None


def _request_id(scope: Scope) -> str:
    given = Headers(scope=scope).get(REQUEST_ID, "")
    return given if _ACCEPTED_ID.fullmatch(given) else uuid4().hex


def _open_span(scope: Scope) -> AbstractContextManager[Any]:
    if not tracing.is_on() or scope["path"].startswith(QUIET):
        return nullcontext()
    given = Headers(scope=scope).get("traceparent")
    method = {"http.request.method": scope["method"], "url.path": scope["path"]}
    return tracing.remote_span(scope["method"], {"traceparent": given} if given else {}, kind="SERVER", **method)
