"""What a search keeps of its measurements for a process that goes on after its death."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.conversion.toolchains.budget import Budget
from app.conversion.toolchains.host.search.score import JudgedPicture, Score
from app.conversion.toolchains.host.search.sensitivity import Sensitivity
from app.conversion.toolchains.journal import Journal
from app.kit.sandbox.errors import StageFailed


class Killed(BaseException):
    """As if the process had ended."""


def killed() -> None:
    raise Killed


def never() -> None:
    raise AssertionError("it is measured again")


def opened(path: Path | None, budget: Budget | None = None, work: str = "abc") -> Journal:
    return Journal(path, work, budget or Budget(None))


def test_what_was_measured_is_known_to_the_next_process_and_what_was_cut_off_is_not(tmp_path: Path) -> None:
    path = tmp_path / "search.jsonl"
    assert opened(path).remember("a", lambda: {"db": 20.123456789012345}) == {"db": 20.123456789012345}
    with path.open("a") as file:
        file.write('{"name": "b", "value": 1')
    after = opened(path)
    assert after.known == 1 and after.remember("a", never) == {"db": 20.123456789012345}
    assert after.remember("b", lambda: 2) == 2


def test_after_a_cut_row_the_journal_can_be_read_on(tmp_path: Path) -> None:
    path = tmp_path / "search.jsonl"
    opened(path).remember("a", lambda: 1)
    with path.open("a") as file:
        file.write('{"name": "b", "val')
    opened(path).remember("b", lambda: 2)
    last = opened(path)
    assert (last.remember("a", never), last.remember("b", never)) == (1, 2)


def test_results_of_other_work_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "search.jsonl"
    opened(path).remember("a", lambda: 1)
    assert opened(path, work="other").remember("a", lambda: 2) == 2
    assert opened(path, work="other").known == 1


def test_what_ended_its_process_twice_is_not_begun_a_third_time(tmp_path: Path) -> None:
    path = tmp_path / "search.jsonl"
    for _ in range(2):
        with pytest.raises(Killed):
            opened(path).remember("a", killed)
    with pytest.raises(StageFailed, match="each time"):
        opened(path).remember("a", never)
    assert opened(path).remember("b", lambda: 2) == 2


def test_a_known_result_sets_the_budget_to_what_was_used_then(tmp_path: Path) -> None:
    path, budget = tmp_path / "search.jsonl", Budget(None, 3600.0, lambda: 50.0, lambda: 7.0)
    budget.resume(40.0, 6.0)
    opened(path, budget).remember("a", lambda: 1)
    later = Budget(None, 3600.0, lambda: 900.0, lambda: 2.0)
    opened(path, later).remember("a", never)
    assert (later.elapsed_s, later.cpu_s) == (40.0, 6.0)


def test_without_a_file_nothing_is_kept_and_everything_is_measured() -> None:
    journal = opened(None)
    assert [journal.remember("a", lambda: 1), journal.remember("a", lambda: 2)] == [1, 2]


def test_a_score_and_a_sensitivity_come_back_as_they_were() -> None:
    pictures = [JudgedPicture(0, f"p{n}", {}, {}) for n in range(3)]
    score = Score({"y": [20.5, 3.25]}, {"y": ["p0", "p2"]}, {"y": (3.25, pictures[2])}, [1.5], False)
    again = Score.from_json(score.to_json(pictures), pictures)
    assert again == score and again.lowest_picture is pictures[2]
    row = Sensitivity("a", "conv", False, "mse", np.array([[0.1, 0.2]]), np.array([[0.3, 0.4]]))
    same = Sensitivity.from_json(row.to_json())
    assert (same.tensor, same.method) == ("a", "mse") and (same.noise == row.noise).all()
    assert (same.usual_noise == row.usual_noise).all() and same.noise.dtype == np.float64
