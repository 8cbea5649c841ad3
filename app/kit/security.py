"""What every answer and every request must observe: security headers, and no changes ordered by another site.

A response that sets its own Content-Security-Policy keeps it; that is the hook for a route that needs another one.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.kit.errors import Forbidden
from app.kit.http import answer_error
from app.kit.policy import HEADERS, POLICY

__all__ = ["HEADERS", "POLICY", "SameOriginOnly", "SecurityHeaders", "is_page"]
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
GUARDED = "/ui"


class SecurityHeaders:
    """Adds each header that the response has not set itself."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        await self.app(scope, receive, send_with_headers)


class SameOriginOnly:
    """Refuses unsafe methods that a browser sends for another site's page.

    Browsers send Sec-Fetch-Site, older ones Origin, and no page can forge either. Programs send neither: they may use
    the API without, but a request under /ui must prove that one of our own pages asked.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not self._is_forged(scope):
            await self.app(scope, receive, send)
            return
        request = Request(scope, receive)
        error = Forbidden(
            "This request did not come from a page of this server, so nothing was changed.",
            hint="Open the page again and repeat what you did there.",
        )
        await answer_error(request, error)(scope, receive, send)

    @staticmethod
    def _is_forged(scope: Scope) -> bool:
        if scope["method"] in SAFE_METHODS:
            return False
        headers = Headers(scope=scope)
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site not in ("same-origin", "none")
        origin = headers.get("origin")
        if origin is None:
            return is_page(scope["path"])
        return urlsplit(origin).netloc != headers.get("host")


def is_page(path: str) -> bool:
    return path == GUARDED or path.startswith(f"{GUARDED}/")
