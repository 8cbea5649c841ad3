"""Logs as pages show them."""

from __future__ import annotations

import pytest

from app.training.pages.log import log_markup


@pytest.mark.parametrize(
    ("log", "markup"),
    [
        ("\x1b[36m(Worker)\x1b[0m <a>", '<span class="ansi-6">(Worker)</span> &lt;a&gt;'),
        ("\x1b[1;91mit\x1b[22m fails", '<span class="ansi-1 ansi-bold">it</span><span class="ansi-1"> fails</span>'),
        ("\x1b[33ma\nb", '<span class="ansi-3">a\nb</span>'),
        ("\x1b[38;5;31mby number\x1b[m", "by number"),
        ("\x1b[48;2;1;31;32mon a ground", "on a ground"),
        ("\x1b[38;2mcut off", "cut off"),
        ("\x1b[2K\x1b]0;title\x07a\x07\x00b", "ab"),
        ("\x1b[30mblack and \x1b[97mwhite", "black and white"),
        ("10%\r20%\r\x1b[32m30%\x1b[0m\r\x1b[0m\n", '<span class="ansi-2">30%</span>\n'),
    ],
)
def test_colours_are_kept_and_nothing_else_of_a_terminal(log: str, markup: str) -> None:
    assert log_markup(log) == markup


def test_what_is_looked_for_is_marked_within_colours_too() -> None:
    marked = log_markup("a <B> \x1b[31mA\x1b[0m.", "a")
    assert marked == '<mark>a</mark> &lt;B&gt; <span class="ansi-1"><mark>A</mark></span>.'


def test_signs_that_a_pattern_would_read_are_looked_for_as_they_are() -> None:
    assert log_markup("a.c abc", "a.c") == "<mark>a.c</mark> abc"
