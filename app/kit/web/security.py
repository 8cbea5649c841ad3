"""Rules for all requests and responses: security headers, known host names, and no changes requested by another site.

A response that sets its own Content-Security-Policy keeps it, for routes that need another one.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request, cookie_parser
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.kit.errors import Forbidden, ModelmillError
from app.kit.web.http import FILE_POLICY, HEADERS, POLICY, answer_error
from app.kit.web.state import web_settings_of

__all__ = [
    "HEADERS",
    "POLICY",
    "SAFE_METHODS",
    "SECURE_SESSION_COOKIE",
    "SESSION_COOKIE",
    "KnownHostsOnly",
    "SameOriginOnly",
    "SecurityHeaders",
    "is_https",
    "is_page",
    "session_cookie",
]
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
GUARDED = "/ui"
SESSION_COOKIE = "modelmill_session"
"""Sent by browsers with every request, including those caused by other sites."""
SECURE_SESSION_COOKIE = f"__Host-{SESSION_COOKIE}"
"""Its name over HTTPS: browsers accept it only from this host and over HTTPS, so no neighboring site can plant one."""
ONE_YEAR_S = 365 * 86400


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
                if headers.get("content-disposition", "").startswith("attachment"):
                    headers.setdefault("Content-Security-Policy", FILE_POLICY)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if is_https(Request(scope)):
                    headers.setdefault("Strict-Transport-Security", f"max-age={ONE_YEAR_S}")
            await send(message)

        await self.app(scope, receive, send_with_headers)


class UnknownHost(ModelmillError, status=421, code="UNKNOWN_HOST"): ...


class KnownHostsOnly:
    """Refuses host names that an attacker may have pointed at this machine (DNS rebinding): a browser would treat the
    attacker's page as one of ours.

    Nobody can redirect an address, a name without dots or the name of public_url. If the web server is reachable
    through the network and has no public_url, its names are unknown, and all are accepted.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_known(scope):
            await self.app(scope, receive, send)
            return
        error = UnknownHost(
            "This server does not go by the name in this request.",
            hint="Open it by its address, or have the operator set MODELMILL_PUBLIC_URL to the name it goes by.",
        )
        await answer_error(Request(scope, receive), error)(scope, receive, send)

    @staticmethod
    def _is_known(scope: Scope) -> bool:
        public_url = web_settings_of.held(scope["app"]).public_url
        if public_url is None and not _is_loopback(scope):
            return True
        host = _name(Headers(scope=scope).get("host", ""))
        return "." not in host or _is_address(host) or host == _name(urlsplit(public_url or "").netloc)


def _name(authority: str) -> str:
    """Returns the host of host:port, in lower case; empty if it is invalid."""
    try:
        return (urlsplit(f"//{authority}").hostname or "").removesuffix(".")
    except ValueError:
        return ""


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(scope: Scope) -> bool:
    """Whether the request was sent to an address of only this machine."""
    address = (scope.get("server") or ("", None))[0]
    return _is_address(address) and ipaddress.ip_address(address).is_loopback


class SameOriginOnly:
    """Refuses unsafe methods that a browser sends on behalf of another site's page.

    Browsers send Sec-Fetch-Site, older ones Origin, and no page can forge either. Programs send neither: they may use
    the API without them, but a request under /ui, or one with a session cookie, must come from one of our own pages. A
    page of another site can add neither a token nor HX-Request to its requests.
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
        headers = Headers(scope=scope)
        if scope["method"] in SAFE_METHODS or headers.get("authorization", "").lower().startswith("bearer "):
            return False
        site = headers.get("sec-fetch-site")
        if site is not None:
            return site not in ("same-origin", "none")
        origin = headers.get("origin")
        if origin is None:
            cookies = cookie_parser(headers.get("cookie", ""))
            is_guarded = is_page(scope["path"]) or SESSION_COOKIE in cookies or SECURE_SESSION_COOKIE in cookies
            return is_guarded and headers.get("hx-request") != "true"
        return urlsplit(origin).netloc != headers.get("host")


def is_https(request: Request) -> bool:
    """Whether it came over HTTPS, to this server or to a proxy in front of it."""
    return request.scope.get("scheme") == "https" or web_settings_of(request).web_url.startswith("https://")


def session_cookie(request: Request) -> str:
    """Name of the session cookie."""
    return SECURE_SESSION_COOKIE if is_https(request) else SESSION_COOKIE


def is_page(path: str) -> bool:
    return path == GUARDED or path.startswith(f"{GUARDED}/")
