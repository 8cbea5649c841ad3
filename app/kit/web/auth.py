"""Authenticates and authorizes each request once, with the authenticator of the application.

`Authentication` stands before all routes. It calls the container's authenticator, stores the caller in the request's
state, and answers itself if access is denied. It ends event streams whose permission has ended: a disabled user, a
revoked token, an ended session; other responses are too short for that. This module does not handle tokens, sessions or
users.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import quote, urlsplit

import anyio
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.kit.errors import Forbidden, ModelmillError, Unauthorized
from app.kit.web.http import answer_error, is_fragment, on_http_exception, wants_page
from app.kit.web.security import SAFE_METHODS
from app.kit.web.sse import CONTENT_TYPE
from app.kit.web.state import FromContainer

LOGIN, LOGOUT = "/ui/login", "/ui/logout"
OPEN = (
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/objects",
    "/shared",
    "/ui/shared",
    "/device-results",
    "/receipts/key",
    "/static",
    LOGIN,
    LOGOUT,
    "/ui/lang",
)
"""Public paths: those that reveal nothing about users, check their own token, or are signed links."""
ADMIN = ("/api/v2/users", "/api/v2/audit", "/ui/admin")
LINK = "/neptune/link"
_OF_NODES = re.compile(rf"{LINK}/.+|/[^/]+/neptune/upstream/.+|/node/.+")
"""Paths for node tokens; a node may use nothing else, and only nodes may use those below LINK."""


@dataclass(frozen=True)
class Caller:
    """The authenticated caller."""

    user: str
    """The user who owns what the caller accesses."""
    may_write: bool = True
    is_admin: bool = False
    token_id: str = ""
    """The token's id; empty for the local user of this machine."""
    node: str = ""
    """Name of the calling node; it is not a user."""


class Authenticator(Protocol):
    def caller(self, request: Request) -> Caller:
        """Identifies the caller. May wait for a database.

        Raises:
            Unauthorized: The request names none, or one that is unknown.
            TooMany: Too many attempts have failed.
            Unavailable: The database does not answer.
        """

    def still_holds(self, request: Request) -> bool:
        """Whether an authenticated request would be accepted again. True while this is unknown."""


authenticator_of: FromContainer[Authenticator] = FromContainer("authenticator")


def caller_of(request: Request) -> Caller:
    """Returns who sends the request, as `Authentication` has found out."""
    caller: Caller = request.state.caller
    return caller


def only_for_administrators(refusal: str) -> Callable[[Request], None]:
    """Returns a check of requests, which raises Forbidden with this refusal for all but administrators."""

    def require_admin(request: Request) -> None:
        if not caller_of(request).is_admin:
            raise Forbidden(refusal, hint="Ask one of them.")

    return require_admin


def user_of(request: Request) -> str:
    """Returns the name of the user who sends the request."""
    return caller_of(request).user


class Authentication:
    """Middleware that finds out who sends a request; only paths below OPEN need nobody."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or is_under(scope["path"], OPEN):
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        authenticator = authenticator_of(request)
        try:
            caller = await run_in_threadpool(authenticator.caller, request)
        except ModelmillError as error:
            await _make_refusal(request, error)(scope, receive, send)
            return
        request.state.caller = caller
        refused = await _forbidden(request, caller)
        if refused is not None:
            await refused(scope, receive, send)
        elif not caller.token_id:
            await self.app(scope, receive, send)
        else:
            await answer_while(lambda: authenticator.still_holds(request), self.app, scope, receive, send)


async def _forbidden(request: Request, caller: Caller) -> Response | None:
    """For others, pages of administrators do not exist."""
    path = request.scope["path"]
    if (caller.node and not _OF_NODES.fullmatch(path)) or (not caller.node and is_under(path, (LINK,))):
        return answer_error(request, Unauthorized("This is for nodes, and nodes may ask for nothing else."))
    if is_under(request.scope["path"], ADMIN) and not caller.is_admin:
        return await on_http_exception(request, HTTPException(404))
    if request.method not in SAFE_METHODS and not caller.may_write:
        return answer_error(request, Forbidden("This token may only read.", hint="Use one with the scope write."))
    return None


def _make_refusal(request: Request, error: ModelmillError) -> Response:
    """Redirects a browser to the sign-in page, and back afterwards; programs and scripts get an error."""
    if not isinstance(error, Unauthorized) or not wants_page(request):
        return answer_error(request, error)
    if is_fragment(request):
        seen = urlsplit(request.headers.get("hx-current-url", "")).path
        return Response(status_code=401, headers={"HX-Redirect": _build_login_url(seen)})
    if request.headers.get("sec-fetch-mode", "navigate") != "navigate":
        return answer_error(request, error)
    target = f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
    return RedirectResponse(_build_login_url(target if request.method in SAFE_METHODS else ""), status_code=303)


def _build_login_url(target: str) -> str:
    return f"{LOGIN}?next={quote(target, safe='/')}" if target not in ("", "/", "/ui") else LOGIN


def is_under(path: str, places: tuple[str, ...]) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in places)


LOOK_AGAIN_S = 3.0


async def answer_while(holds: Callable[[], bool], app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Runs the application; its event stream ends soon after the permission does.

    Args:
        holds: whether the permission still holds; called in a thread, every few seconds.
    """
    watching: asyncio.Task[None] | None = None
    is_open = False

    async def send_watched(message: Message) -> None:
        nonlocal watching, is_open
        if message["type"] == "http.response.start" and _is_stream(message):
            is_open, watching = True, asyncio.create_task(_watch(holds, whole))
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            is_open = False
        await send(message)

    with anyio.CancelScope() as whole:
        try:
            await app(scope, receive, send_watched)
        finally:
            if watching is not None:
                watching.cancel()
    if whole.cancelled_caught and is_open:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _watch(holds: Callable[[], bool], whole: anyio.CancelScope) -> None:
    while await run_in_threadpool(holds):
        await asyncio.sleep(LOOK_AGAIN_S)
    whole.cancel()


def _is_stream(start: Message) -> bool:
    return Headers(raw=start["headers"]).get("content-type", "").startswith(CONTENT_TYPE)
