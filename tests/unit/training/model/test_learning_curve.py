"""Rows of metrics as programs write them, and the curves that are made of them."""

from __future__ import annotations

import json
import math

import pytest

from app.training.model.learning_curve import Curve, LearningCurves, best_of, join_curves, smoothed, thin_places


def curves_of(*rows: object) -> LearningCurves:
    read = LearningCurves()
    read.feed(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    return read


def points(curve: Curve) -> list[tuple[float, float]]:
    return list(zip(curve.steps, curve.values, strict=True))


def test_verls_rows_and_flat_ones_are_read_alike() -> None:
    verl = curves_of({"step": 1, "data": {"actor/loss": 0.5}}, {"step": 2, "data": {"actor/loss": 0.25}})
    flat = curves_of({"step": 1, "actor/loss": 0.5}, {"step": 2, "actor/loss": 0.25})
    assert points(verl.curves["actor/loss"]) == points(flat.curves["actor/loss"]) == [(1, 0.5), (2, 0.25)]
    assert set(flat.curves) == {"actor/loss"}


def test_a_row_that_is_written_just_now_is_read_when_it_is_whole() -> None:
    read = LearningCurves()
    read.feed(b'{"step": 1, "loss": 3}\n{"step": 2, "lo')
    assert points(read.curves["loss"]) == [(1, 3)]
    read.feed(b'ss": 2}\n')
    assert points(read.curves["loss"]) == [(1, 3), (2, 2)]
    assert read.unreadable_count == 0


@pytest.mark.parametrize(
    "line", [b"loss 0.5", b"[1, 2]", b'{"loss": 1}', b'{"step": "one", "loss": 1}', b'{"step": NaN}', b"[" * 100_000]
)
def test_what_is_no_row_is_counted_and_passed_over(line: bytes) -> None:
    read = LearningCurves()
    read.feed(line + b'\n{"step": 1, "loss": 1}\n')
    assert (read.row_count, read.unreadable_count) == (1, 1)


def test_only_finite_numbers_make_points() -> None:
    row = b'{"step": 1, "a": NaN, "b": Infinity, "c": true, "d": "1", "e": [1], "f": 1e400, "g": 7, "\\u0007": 1}\n'
    read = LearningCurves()
    read.feed(row)
    assert set(read.curves) == {"g"}


def test_time_comes_from_the_row_or_from_what_the_steps_took() -> None:
    told = curves_of({"step": 1, "time": 100.0, "loss": 1}, {"step": 2, "time": 130.5, "loss": 1})
    assert list(told.curves["loss"].times_s) == [0.0, 30.5]
    summed = curves_of(
        {"step": 1, "data": {"timing_s/step": 2.0, "loss": 1}}, {"step": 2, "data": {"timing_s/step": 3.0, "loss": 1}}
    )
    assert list(summed.curves["loss"].times_s) == [2.0, 5.0]
    silent = curves_of({"step": 1, "loss": 1})
    assert not silent.curves["loss"].has_times
    assert math.isnan(silent.curves["loss"].times_s[0])


def test_a_later_attempt_takes_the_place_of_the_steps_that_it_did_again() -> None:
    first = curves_of(*({"step": step, "loss": 10 - step} for step in range(1, 6)))
    second = curves_of({"step": 4, "loss": 0.4}, {"step": 5, "loss": 0.5}, {"step": 6, "loss": 0.6})
    whole = join_curves([first, second])
    assert points(whole["loss"]) == [(1, 9), (2, 8), (3, 7), (4, 0.4), (5, 0.5), (6, 0.6)]


def test_a_curve_that_grows_while_it_is_read_has_whole_points_and_what_was_read_stays() -> None:
    read = curves_of({"step": 1, "loss": 0.5})
    growing = read.curves["loss"]
    growing.steps.append(2.0)  # another thread is between the three
    whole = join_curves([read])["loss"]
    assert points(whole) == [(1, 0.5)]
    growing.values.append(0.25)
    growing.times_s.append(math.nan)
    assert (len(whole), len(growing)) == (1, 2)


def test_the_time_of_a_later_attempt_goes_on() -> None:
    first = curves_of({"step": 1, "time": 0, "loss": 1}, {"step": 2, "time": 10, "loss": 1})
    second = curves_of({"step": 3, "time": 500, "loss": 1}, {"step": 4, "time": 510, "loss": 1})
    assert list(join_curves([first, second])["loss"].times_s) == [0, 10, 10, 20]


@pytest.mark.parametrize(
    ("name", "best"),
    [("train/loss", 2), ("actor/pg_loss", None), ("critic/rewards/mean", 3), ("val_acc", 3), ("actor/lr", None)],
)
def test_the_best_is_the_least_loss_and_the_highest_reward(name: str, best: int | None) -> None:
    curve = curves_of(*({"step": step, name: value} for step, value in ((1, 5.0), (2, 1.0), (3, 9.0)))).curves[name]
    assert (point.step if (point := best_of(name, curve)) else None) == best


def test_a_smoothed_curve_begins_where_the_curve_does_and_keeps_what_is_level() -> None:
    assert smoothed([4.0, 4.0, 4.0], 0.9) == pytest.approx([4.0, 4.0, 4.0])
    assert smoothed([0.0, 1.0], 0.5) == pytest.approx([0.0, 2 / 3])


def test_a_long_curve_keeps_its_peaks_and_its_end() -> None:
    values = [0.0] * 10_000
    values[1234], values[7777], values[-1] = 50.0, -50.0, 3.0
    places = thin_places(values, 100)
    assert len(places) <= 100
    assert {1234, 7777, 9999} <= set(places)
    assert places == sorted(set(places))


def test_a_short_curve_is_kept_whole() -> None:
    assert thin_places([3.0, 2.0, 1.0], 3) == [0, 1, 2]
