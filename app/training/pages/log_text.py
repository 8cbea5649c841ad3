"""The text of a log as a page shows it: in its program's colours, of a progress bar the last state. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markupsafe import Markup, escape

from app.training.model.log_excerpt import CONTROLS, ESCAPE

STYLE = re.compile(r"\x1b\[([0-9;]{0,99})m")
BOLD, NOT_BOLD, USUAL_COLOR = 1, 22, 39
COLORS = {**{code: code - 30 for code in range(31, 37)}, **{code: code - 90 for code in range(91, 97)}}
"""Red, green, yellow, blue, magenta and cyan, as the style sheet numbers them; black and white are the page's own."""
WIDE = {38: {5: 2, 2: 4}, 48: {5: 2, 2: 4}}
"""Of colours by number or by red, green and blue, which are not shown: how many numbers follow each."""


def log_markup(log: str, marked: str = "") -> Markup:
    """A log as HTML.

    Args:
        marked: what is marked in it, in small or capital letters.
    """
    text = "\n".join(map(_last_state, log.split("\n")))
    return Markup("").join(_pieces(text, marked))


def _pieces(text: str, marked: str) -> Iterator[Markup]:
    color, is_bold = 0, False
    first, *rest = STYLE.split(text)
    yield _marked(first, marked)
    for codes, piece in zip(rest[::2], rest[1::2], strict=True):
        color, is_bold = _style(codes, color, is_bold=is_bold)
        names = [name for name, holds in ((f"ansi-{color}", color), ("ansi-bold", is_bold)) if holds]
        shown = _marked(piece, marked)
        yield Markup('<span class="{}">{}</span>').format(" ".join(names), shown) if names and shown else shown


def _style(codes: str, color: int, *, is_bold: bool) -> tuple[int, bool]:
    """The style after what a sequence says; what it says of grounds, lines and the like is left out."""
    numbers = [int(code or 0) for code in codes.split(";") if len(code) < 4]
    while numbers:
        code = numbers.pop(0)
        if code in WIDE:
            del numbers[: WIDE[code].get(numbers[0], 1) if numbers else 0]
        elif code == 0:
            color, is_bold = 0, False
        elif code in (BOLD, NOT_BOLD):
            is_bold = code == BOLD
        elif code == USUAL_COLOR or code in COLORS:
            color = COLORS.get(code, 0)
    return color, is_bold


def _marked(text: str, marked: str) -> Markup:
    plain = CONTROLS.sub("", ESCAPE.sub("", text))
    if not marked:
        return escape(plain)
    parts = re.split(f"({re.escape(marked)})", plain, flags=re.IGNORECASE)
    return Markup("").join(Markup("<mark>{}</mark>").format(part) if at % 2 else part for at, part in enumerate(parts))


def _last_state(line: str) -> str:
    """A program that draws a progress bar goes back to the beginning of the line for each of its states."""
    states = [state for state in line.split("\r") if ESCAPE.sub("", state)]
    return states[-1] if states else ""
