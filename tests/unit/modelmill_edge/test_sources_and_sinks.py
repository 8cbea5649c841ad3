"""Pictures in, outcomes out, of a program of one's own."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from modelmill_edge import JsonLines, Outcome, Prediction, frames

OUTCOME = Outcome("a", "edge", Prediction(probabilities=(0.25, 0.75)), False, "", None, None, 1.0, None, "")


def test_a_folder_is_read_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b.png", "a.JPG", "notes.txt", "c.jpeg"):
        (tmp_path / name).write_bytes(b"")
    assert [path.name for path in frames(tmp_path)] == ["a.JPG", "b.png", "c.jpeg"]
    assert list(frames(tmp_path / "b.png")) == [tmp_path / "b.png"]


def test_a_folder_without_pictures_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no JPEG or PNG"):
        next(frames(tmp_path))


def test_a_rate_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / f"{name}.png").write_bytes(b"")
    now, pauses = [100.0], []

    def sleep(seconds: float) -> None:
        pauses.append(round(seconds, 6))
        now[0] += seconds

    monkeypatch.setattr("modelmill_edge.sources.time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))
    assert len(list(frames(tmp_path, fps=4))) == 3
    assert pauses == [0, 0.25, 0.25]


def test_outcomes_are_lines_and_full_files_make_room(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"
    with JsonLines(path, max_bytes=1, files=2) as sink:
        for _ in range(4):
            sink.write(OUTCOME)
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["out.jsonl", "out.jsonl.1", "out.jsonl.2"]
    line = json.loads((tmp_path / "out.jsonl.1").read_text())
    assert (line["id"], line["final"]["probabilities"], path.read_text()) == ("a", [0.25, 0.75], "")
