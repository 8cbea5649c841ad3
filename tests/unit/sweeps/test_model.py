"""Options put together part by part, and which results nothing beats."""

from __future__ import annotations

import csv
import io

from app.sweeps.model import RowAnswer, best_of, merge_values
from app.sweeps.schemas import csv_answer, table_of


def row(position: int, snr_db: float | None, size_bytes: int | None, model: str = "m", problem: str = "") -> RowAnswer:
    return RowAnswer(
        position, "id", model, "v", "COMPLETED", 100, None, snr_db, None, size_bytes, None, None, None, problem, False
    )


def test_a_change_keeps_what_it_does_not_name() -> None:
    base = {"preprocess": {"mean": [1], "scale": 2}, "toolchain": "host"}
    change = {"preprocess": {"scale": 3}, "quantization": {"method": "entropy"}}
    expected = {"preprocess": {"mean": [1], "scale": 3}, "toolchain": "host", "quantization": {"method": "entropy"}}
    assert merge_values(base, change) == expected
    assert base["preprocess"] == {"mean": [1], "scale": 2}


def test_the_best_are_those_that_none_is_both_better_and_smaller_than() -> None:
    rows = [row(0, 30.0, 100), row(1, 20.0, 50), row(2, 19.0, 60), row(3, None, 10), row(4, 1.0, 999, "other")]
    assert best_of(rows) == {0, 1, 4}


def test_equals_are_both_among_the_best() -> None:
    assert best_of([row(0, 30.0, 100), row(1, 30.0, 100)]) == {0, 1}


def test_a_spreadsheet_is_given_no_formula() -> None:
    answer = csv_answer(table_of((row(0, 1.5, 2, problem="=1+1"),)), "sweep.csv")
    (cells,) = csv.DictReader(io.StringIO(bytes(answer.body).decode()))
    assert (cells["problem"], cells["snr_db"], cells["cosine"]) == ("'=1+1", "1.5", "")
