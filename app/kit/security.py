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

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
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
    """Refuses unsafe methods under /ui unless the browser says that one of our own pages asked.

    Browsers send Sec-Fetch-Site, older ones Origin, and no page can forge either.
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
        if scope["method"] in SAFE_METHODS or not is_page(scope["path"]):
            return False
        headers = Headers(scope=scope)
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site not in ("same-origin", "none")
        origin = headers.get("origin", "")
        return not origin or urlsplit(origin).netloc != headers.get("host")


def is_page(path: str) -> bool:
    return path == GUARDED or path.startswith(f"{GUARDED}/")
