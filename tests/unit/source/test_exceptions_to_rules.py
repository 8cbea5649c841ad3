"""What is allowed against the rules of the tools says why it is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.harness.paths import REPOSITORY

SUPPRESSION = re.compile(r"# (?:noqa|type: ignore)\b")
CODES = r"# (?:noqa: [A-Z]+\d+(?:, [A-Z]+\d+)*|type: ignore\[[a-z, -]+\])"
REASON = re.compile(rf"{CODES}(?:  {CODES})*  # (?!noqa|type:)\S")
BROAD = re.compile(r"except Exception(?: as \w+)?:")
BROAD_REASON = re.compile(rf"{BROAD.pattern}(?:  {CODES})?  # (?!noqa|type:)\S")


def product() -> dict[Path, list[str]]:
    paths = [path for folder in ("app", "actors") for path in (REPOSITORY / folder).rglob("*.py")]
    return {path.relative_to(REPOSITORY): path.read_text("utf-8").splitlines() for path in paths}


def test_what_a_tool_is_to_overlook_has_its_rule_and_a_reason() -> None:
    assert [
        f"{path}:{number}"
        for path, lines in product().items()
        for number, line in enumerate(lines, 1)
        if SUPPRESSION.search(line) and not REASON.search(line)
    ] == []


def test_whoever_catches_everything_says_why() -> None:
    assert [
        f"{path}:{number}"
        for path, lines in product().items()
        for number, line in enumerate(lines, 1)
        if BROAD.search(line) and not BROAD_REASON.search(line)
    ] == []
