"""The table that a pipeline comments."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from app.exchange.ci_table import ci_table
from app.kit.cli.command import Exit
from tests.harness.command_line import typed


def outcome(status: str = "COMPLETED", snr_db: float = 21.4, **error: str) -> dict[str, Any]:
    job = {
        "job_id": "0a",
        "name": "yolo | small",
        "status": status,
        "options": {"toolchain": "host"},
        "stages": {"bie": {"summary": {"snr_db": snr_db, "samples": 10, "passed": True} if not error else {}}},
        "error": error or None,
    }
    return {"job": job}


def test_what_was_measured_and_whether_it_is_enough() -> None:
    text = ci_table(outcome(), 20)
    assert "| SNR of the worst output | 21.4 dB |" in text
    assert "at or above the goal of 20 dB" in text
    assert "**below** the goal of 25 dB" in ci_table(outcome(), 25)
    assert "| Outcome | completed |" in ci_table(outcome(), None)


def test_a_failure_says_why_and_breaks_no_table() -> None:
    text = ci_table(outcome("FAILED", reason="a | b\nc", hint="Cut the graph."), None)
    assert "| Outcome | **FAILED** |" in text
    assert "| Reason | a \\| b c |" in text and "| What to do | Cut the graph. |" in text


@pytest.mark.parametrize(
    ("content", "goal", "words"),
    [
        (json.dumps(outcome()), "high", "--goal 'high' is no number"),
        (json.dumps(outcome()), "nan", "--goal 'nan' is no number"),
        ("{", "20", "has no outcome of a conversion"),
        ("{}", "", "has no outcome of a conversion"),
    ],
)
def test_what_cannot_be_compared_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    content: str,
    goal: str,
    words: str,
) -> None:
    file = tmp_path / "outcome.json"
    file.write_text(content)
    assert typed(monkeypatch, "ci-table", file, "--goal", goal) == Exit.BAD_INPUT
    assert words in capsys.readouterr().err
