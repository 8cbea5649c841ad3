"""What a page must not do, noted while it does it: errors in the console, broken policies, requests to other hosts."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from playwright.sync_api import BrowserContext, ConsoleMessage, Request, WebError

OWN_SCHEMES = ("data", "blob", "about")
OF_THE_MACHINE = "net::ERR_NETWORK_CHANGED"
"""Chromium drops requests when a network interface comes or goes, as those of the tests with several hosts do."""


class Watch:
    """Listens to every page of a context. Chromium reports a broken Content-Security-Policy as a console error."""

    def __init__(self, context: BrowserContext, host: str) -> None:
        self.host = host
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._expected: list[str] = []
        context.on("console", self._console)
        context.on("weberror", self._script_error)
        context.on("request", self._request)

    def forgive(self, pattern: str) -> None:
        """Forget the complaints that match: a test has caused them itself."""
        self.complaints = [complaint for complaint in self.complaints if not re.search(pattern, complaint)]

    def expect(self, pattern: str) -> None:
        """Hear no complaints that match, neither from before nor from now on: what causes them may go on."""
        self._expected.append(pattern)
        self.forgive(pattern)

    def forget(self) -> None:
        """Begin anew: another page is opened in the same window."""
        self.complaints, self.requests = [], []

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and OF_THE_MACHINE not in message.text:
            self._complain(f"{message.location.get('url', '')}: {message.text}")

    def _script_error(self, error: WebError) -> None:
        self._complain(f"uncaught: {error.error}")

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)
        address = urlsplit(request.url)
        if address.scheme not in OWN_SCHEMES and address.netloc != self.host:
            self._complain(f"asked another host: {request.url}")

    def _complain(self, text: str) -> None:
        if not any(re.search(pattern, text) for pattern in self._expected):
            self.complaints.append(text)
