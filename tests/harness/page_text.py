"""The text of pages, and which fragments they request again."""

from __future__ import annotations

import html
import re

import httpx

HELP = re.compile(r'<button class="help".*?</button><span class="popover help-text".*?</span>', re.S)
"""Help beside a word, which is hidden until its button is pressed."""


def text_of(answer: httpx.Response | str) -> str:
    """Returns the text of a page without its tags."""
    page = answer if isinstance(answer, str) else answer.text
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", HELP.sub(" ", page))).split())


def polled(answer: httpx.Response) -> list[str]:
    """Returns the URLs that the page requests again by itself."""
    return [html.unescape(url) for url in re.findall(r'hx-get="([^"]+)" hx-trigger="[^"]*every', answer.text)]


def rows(answer: httpx.Response) -> list[str]:
    return re.findall(r'id="task-row-([^"]+)"', answer.text)
