"""One override of Hydra's command line, read by its rules."""

from __future__ import annotations

import re


def parsed(word: str) -> tuple[str, str]:
    """By Hydra's rules: in quotes only a backslash before a quote is one; without them only harmless characters."""
    key, _, value = word.partition("=")
    if not value.startswith('"'):
        assert re.fullmatch(r"[\w/.+-]+|\[console\]", value, re.ASCII), value
        return key, value
    inner = re.fullmatch(r'"((?:[^"\\]|\\+(?!["\\])|(?:\\\\)*\\"|(?:\\\\)+(?="))*)"', value)
    assert inner is not None, f"{value} ends before its end"
    return key, re.sub(r'(\\+)("|$)', lambda found: "\\" * (len(found[1]) // 2) + found[2], inner[1])
