"""How many bytes an edge worker may upload per second and per month, over restarts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.edge.joint.byte_budget import ByteBudget

NOVEMBER, DECEMBER = datetime(2026, 11, 30, 23, 59, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
MONTH = "over the byte budget of this month"
SECOND = "over the byte budget of this second"


def test_without_limits_everything_is_sent_and_counted() -> None:
    budget = ByteBudget(0, 0, None)
    assert [budget.take(10**9, at=0, now=NOVEMBER) for _ in range(3)] == ["", "", ""]
    assert (budget.counts.month_bytes, budget.counts.saved_bytes) == (3 * 10**9, 0)


def test_the_month_is_never_exceeded_and_the_next_one_starts_anew() -> None:
    budget = ByteBudget(0, 250, None)
    assert [budget.take(100, at=0, now=NOVEMBER) for _ in range(4)] == ["", "", MONTH, MONTH]
    assert budget.take(50, at=0, now=NOVEMBER) == ""
    assert (budget.counts.month_bytes, budget.counts.saved_bytes) == (250, 200)
    assert budget.take(100, at=0, now=DECEMBER) == ""
    assert (budget.counts.month, budget.counts.month_bytes, budget.counts.saved_bytes) == ("2026-12", 100, 200)


@pytest.mark.parametrize("size", [10, 99, 100, 101, 3500])
def test_over_time_no_more_than_the_bytes_per_second_are_sent_whatever_their_size(size: int) -> None:
    budget = ByteBudget(1000, 0, None)
    sent = sum(size for tick in range(10_000) if not budget.take(size, at=tick / 100, now=NOVEMBER))
    assert 100 * 1000 * 0.9 <= sent <= 100 * 1000 + 1000 + size
    assert sent + budget.counts.saved_bytes == 10_000 * size


def test_a_restart_forgets_neither_the_month_nor_what_was_saved(tmp_path: Path) -> None:
    budget = ByteBudget(0, 250, tmp_path / "budget.json")
    for _ in range(3):
        budget.take(100, at=0, now=NOVEMBER)
    budget.save()
    again = ByteBudget(0, 250, tmp_path / "budget.json")
    assert again.counts == budget.counts
    assert again.take(100, at=0, now=NOVEMBER) == MONTH


@pytest.mark.parametrize("text", ["", "[]", '{"month": 1}', '{"month": "", "month_bytes": "x", "saved_bytes": 0}'])
def test_a_damaged_file_starts_at_zero(text: str, tmp_path: Path) -> None:
    (tmp_path / "budget.json").write_text(text)
    assert ByteBudget(0, 0, tmp_path / "budget.json").counts.month_bytes == 0
