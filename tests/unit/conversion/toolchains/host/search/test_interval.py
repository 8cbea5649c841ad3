"""How sure a mean over a few pictures is."""

from __future__ import annotations

import numpy as np
import pytest

from app.conversion.toolchains.host.search.interval import interval_of, most_of


def test_of_even_values_the_interval_is_about_students() -> None:
    values = np.linspace(18.0, 22.0, 25)
    low, high = interval_of([float(value) for value in values])
    half = 2.06 * values.std(ddof=1) / 5
    assert (low, high) == (pytest.approx(20 - half, abs=0.05), pytest.approx(20 + half, abs=0.05))


def test_single_pictures_that_are_ruined_pull_its_lower_end_down() -> None:
    values = [30.0] * 9 + [-5.0]
    mean = 26.5
    low, high = interval_of(values)
    assert low is not None and high is not None
    assert mean - low > 1.5 * (high - mean), "Student's would be even, and above what was ever seen"
    assert high <= 30.0


def test_it_holds_the_true_mean_nearly_as_often_as_it_says() -> None:
    """Of a skewed distribution, with as few pictures as a verdict has."""
    random = np.random.default_rng(1)
    held = 0
    for _ in range(300):
        low, high = interval_of([float(value) for value in 30.0 - random.gamma(2.0, 3.0, 10)])
        assert low is not None and high is not None
        held += low <= 24.0 <= high
    assert held >= 270


def test_more_pictures_make_it_narrower() -> None:
    few, many = interval_of([19.0, 21.0] * 3), interval_of([19.0, 21.0] * 30)
    assert few[0] is not None and many[0] is not None
    assert few[0] < many[0] < 20


def test_it_is_the_same_each_time_in_any_order() -> None:
    assert interval_of([1.0, 5.0, 2.0]) == interval_of([5.0, 1.0, 2.0])


def test_of_one_picture_nothing_is_sure() -> None:
    assert interval_of([20.0]) == (None, None)
    assert interval_of([]) == (None, None)


def test_a_handful_of_values_is_surely_not_above_what_student_says() -> None:
    assert most_of([-4.0, -2.0, -4.0, -2.0]) == pytest.approx(-3.0 + 3.18 * 1.1547 / 2, abs=0.01)
    assert most_of([-4.0]) == np.inf
