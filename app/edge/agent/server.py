"""The agent's own web server: its health, and the endpoints of the drivers for workers and people on this machine.

Callers from other machines need the node's token. Browsers are refused, since any page could send requests in its
reader's name.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.kit.cli.command import CannotStart
from app.kit.errors import Forbidden, ModelmillError, Unauthorized
from app.kit.network.addresses import is_asked_from_here
from app.kit.network.bearer import has_bearer
from app.kit.network.keep_alive import KEEP_ALIVE_S

OF_BROWSERS = ("origin", "sec-fetch-site")


class TokenGuard:
    """Middleware that admits this machine, and others that have the node's token."""

    def __init__(self, app: ASGIApp, token: Callable[[], str]) -> None:
        """
        Args:
            token: gives the node's current one; an empty one admits nobody.
        """
        self.app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        error = self._find_objection(scope)
        await (_make_refusal(error) if error else self.app)(scope, receive, send)

    def _find_objection(self, scope: Scope) -> ModelmillError | None:
        headers = Headers(scope=scope)
        if any(name in headers for name in OF_BROWSERS):
            return Forbidden("This is not for browsers.")
        if is_asked_from_here(scope):
            return None
        is_right = has_bearer(headers, self._token())
        return None if is_right else Unauthorized("From another machine this needs the node's token.")


def build_application(
    routes: Sequence[BaseRoute], *, token: Callable[[], str], health: Callable[[], dict[str, object]]
) -> Starlette:
    """Builds the application with the drivers' routes behind the guard.

    Args:
        token: returns the node's current token.
        health: returns the body of GET /healthz.
    """

    async def healthz(_: Request) -> JSONResponse:
        return JSONResponse(health())

    return Starlette(
        routes=[Route("/healthz", healthz), *routes],
        middleware=[Middleware(TokenGuard, token=token)],
        exception_handlers={ModelmillError: _on_error},
    )


def listen(host: str, port: int, *, preferred: int = 0) -> socket.socket:
    """Returns a listening socket.

    Args:
        port: 0 for any.
        preferred: tried first if port is 0.

    Raises:
        CannotStart: The port is taken.
    """
    for number in [preferred, 0] if port == 0 and preferred else [port]:
        with contextlib.suppress(OSError):
            return _bind(host, number)
    raise CannotStart(
        f"the agent cannot listen on {host}:{port}",
        hint="Is another agent there? Give another --listen, or :0 for any.",
    )


class AgentServer(uvicorn.Server):
    """Runs in the agent's event loop, which handles signals."""

    def __init__(self, app: Starlette) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_graceful_shutdown=2,
                timeout_keep_alive=KEEP_ALIVE_S,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _bind(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((host, port))
        sock.listen(128)
    except OSError:
        sock.close()
        raise
    return sock


def _make_refusal(error: ModelmillError) -> JSONResponse:
    return JSONResponse({"error": error.to_dict()}, status_code=error.status)


async def _on_error(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ModelmillError)
    return _make_refusal(error)
