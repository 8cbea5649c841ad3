"""What is a file and what is fetched, and how a fetch ends."""

from __future__ import annotations

from typing import Any

import pytest

from app.conversion.cli import sources
from app.conversion.cli.sources import FetchFailed, fetch_key, is_source, stem_of


class FakeClient:
    """Answers one transfer after the other."""

    def __init__(self, *states: dict[str, Any]) -> None:
        self.states = list(states)

    def fetch_model(self, _: str) -> dict[str, Any]:
        return self.states.pop(0)

    def transfer(self, _: str) -> dict[str, Any]:
        return self.states.pop(0)


class Seen:
    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []

    def sent(self, done: int, total: int) -> None:
        self.sizes.append((done, total))


def transfer(state: str, done: int = 0, **more: Any) -> dict[str, Any]:
    known = {"transfer_id": "t", "total_bytes": 10, "error": None, "model_key": "uploads/u/model.onnx"}
    return {**known, "state": state, "done_bytes": done, **more}


@pytest.mark.parametrize(
    ("model", "is_fetched", "stem"),
    [
        ("models/yolo.onnx", False, "yolo"),
        ("hf://org/detector", True, "detector"),
        ("hf://org/detector:onnx/small.onnx", True, "small"),
        ("models:/detector/3", True, "detector"),
        ("models:/detector@champion", True, "detector"),
        ("https://host/a/b.onnx?x=1/2", True, "b"),
        ("models/3", False, "3"),
        ("http://host/b.onnx", True, "b"),
        ("ftp://host/b.onnx", True, "b"),
    ],
)
def test_sources_are_told_from_files(model: str, is_fetched: bool, stem: str) -> None:
    assert (is_source(model), stem_of(model)) == (is_fetched, stem)


def test_a_fetch_is_followed_to_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LOOK_AGAIN_S", 0)
    display, client = Seen(), FakeClient(transfer("QUEUED"), transfer("RUNNING", 4), transfer("COMPLETED", 10))
    assert fetch_key(client, "hf://o/m", display) == "uploads/u/model.onnx"  # type: ignore[arg-type]
    assert display.sizes == [(4, 10), (10, 10)]


def test_a_fetch_that_failed_says_why_and_what_to_do() -> None:
    error = {"message": "There is no such repository.", "hint": "Name another."}
    with pytest.raises(FetchFailed, match="no such repository") as failed:
        fetch_key(FakeClient(transfer("FAILED", error=error)), "hf://o/m", Seen())  # type: ignore[arg-type]
    assert failed.value.hint == "Name another."
