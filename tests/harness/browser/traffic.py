"""What a page asked for and what became of it, told when what was waited for did not come."""

from __future__ import annotations

import time
from re import Pattern

from playwright.sync_api import Page, Request, Response

LOOK_MS = 100


class Traffic:
    """Of a page, from now on."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._began = time.monotonic()
        self._answered: list[Response] = []
        self._lines: list[str] = []
        page.on("request", lambda request: self._note("asked", request))
        page.on("response", self._on_response)
        page.on("requestfailed", lambda request: self._note(f"failed ({request.failure})", request))

    def response(self, url: Pattern[str], *, timeout_s: float) -> Response:
        """The first answer from such a URL, as soon as its head is there. Raises AssertionError with all traffic."""
        end = time.monotonic() + timeout_s
        while time.monotonic() < end:
            for response in self._answered:
                if url.search(response.url):
                    return response
            self._page.wait_for_timeout(LOOK_MS)
        raise AssertionError(f"no answer from {url.pattern}; there was\n" + "\n".join(self._lines))

    def _on_response(self, response: Response) -> None:
        self._answered.append(response)
        self._note(str(response.status), response.request)

    def _note(self, what: str, request: Request) -> None:
        self._lines.append(f"{time.monotonic() - self._began:6.2f} s {what} {request.method} {request.url}")
