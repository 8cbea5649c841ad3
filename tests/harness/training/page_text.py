"""What pages say, and what they ask for again."""

from __future__ import annotations

import html
import re

import httpx


def text_of(answer: httpx.Response) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", answer.text)).split())


def polled(answer: httpx.Response) -> list[str]:
    """What the page asks for again by itself."""
    return [html.unescape(url) for url in re.findall(r'hx-get="([^"]+)" hx-trigger="[^"]*every', answer.text)]


def rows(answer: httpx.Response) -> list[str]:
    return re.findall(r'id="task-row-([^"]+)"', answer.text)
