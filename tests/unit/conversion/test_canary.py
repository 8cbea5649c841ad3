"""Two runs of one conversion, and what has changed between them."""

from __future__ import annotations

from typing import Any

import pytest

from app.conversion.canary import compare


def run(status: str = "COMPLETED", snr_db: float | None = 20.0, seconds: int = 4, **more: Any) -> dict[str, Any]:
    stage = {
        "started_at": "2026-01-01T00:00:00+00:00",
        "finished_at": f"2026-01-01T00:00:{seconds:02}+00:00",
        "summary": {} if snr_db is None else {"snr_db": snr_db},
        "versions": {"onnxruntime": more.pop("version", "1")},
    }
    waiting = {"started_at": None, "finished_at": None, "summary": {}, "versions": {}}
    stages = {"onnx": waiting, "bie": stage, "nef": waiting}
    artifacts = {"out.nef": {"size_bytes": more.pop("size", 100)}} if status == "COMPLETED" else {}
    record = {"job_id": "a", "name": "net", "status": status, "stages": stages, "artifacts": artifacts, "error": None}
    return {**record, **more}


@pytest.mark.parametrize(
    ("before", "after", "outcome", "is_worse"),
    [
        (run(), run(), "same", False),
        (run(), run(snr_db=19.6), "same", False),
        (run(), run(snr_db=19.4), "worse", True),
        (run(), run(snr_db=21.0), "better", False),
        (run(), run("FAILED"), "failed", True),
        (run("FAILED"), run(), "recovered", False),
        (run("FAILED"), run("FAILED"), "still_failed", False),
        (run(snr_db=None), run(snr_db=None), "same", False),
    ],
)
def test_an_outcome_is_told_by_status_and_signal(before: Any, after: Any, outcome: str, is_worse: bool) -> None:
    row = compare(before, after)
    assert (row.outcome, row.is_worse) == (outcome, is_worse)


def test_time_size_and_versions_lie_beside_each_other() -> None:
    row = compare(run(seconds=4, size=100, version="1"), run(seconds=6, size=90, version="2"))
    assert row.took_s == (4.0, 6.0)
    assert row.size_bytes == (100, 90)
    assert row.versions == {"onnxruntime": ("1", "2")}


def test_a_failure_comes_with_its_reason() -> None:
    row = compare(run(), run("FAILED", error={"reason": "it died"}))
    assert (row.reason, row.size_bytes) == ("it died", (100, None))
    assert row.to_json()["is_worse"]


def test_the_allowed_loss_is_the_callers() -> None:
    assert compare(run(), run(snr_db=18.5), drop_db=2.0).outcome == "same"
