"""What a page must not do, noted while it does it: errors in the console, broken policies, requests to other hosts."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, WebError

OWN_SCHEMES = ("data", "blob", "about")


class Watch:
    """Listens to every page of a context. Chromium reports a broken Content-Security-Policy as a console error."""

    def __init__(self, context: BrowserContext, host: str) -> None:
        self.host = host
        self.complaints: list[str] = []
        self.requests: list[str] = []
        context.on("console", self._console)
        context.on("weberror", self._script_error)
        context.on("request", self._request)

    def forgive(self, pattern: str) -> None:
        """Forget the complaints that match: a test has caused them itself."""
        self.complaints = [complaint for complaint in self.complaints if not re.search(pattern, complaint)]

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.complaints.append(f"{message.location.get('url', '')}: {message.text}")

    def _script_error(self, error: WebError) -> None:
        self.complaints.append(f"uncaught: {error.error}")

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)
        address = urlsplit(request.url)
        if address.scheme not in OWN_SCHEMES and address.netloc != self.host:
            self.complaints.append(f"asked another host: {request.url}")
