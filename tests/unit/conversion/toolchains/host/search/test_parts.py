from __future__ import annotations

import numpy as np
import pytest

from app.conversion.toolchains.host.histogram import Histogram
from app.conversion.toolchains.host.search.budget import Budget
from app.conversion.toolchains.host.search.integers import activation_parameters, quantized_weight
from app.conversion.toolchains.host.search.judge import NOT_FINITE_DB, snr_db
from app.conversion.toolchains.host.search.judgement import interval
from app.conversion.toolchains.host.search.mixed_precision import fewest, ordered
from app.conversion.toolchains.host.search.ranges import METHODS, range_of
from app.conversion.toolchains.host.search.sensitivity import Sensitivity
from app.conversion.toolchains.host.search.split import split_of
from app.conversion.toolchains.host.search.statistics import PartStatistics, merged


def part(*arrays: np.ndarray) -> PartStatistics:
    statistics = PartStatistics()
    for array in arrays:
        statistics.add(array)
    return statistics


def test_many_pictures_are_split_in_three_disjoint_sets_the_same_way_each_time() -> None:
    split = split_of(50)
    assert split == split_of(50) and split.is_disjoint
    assert [split.size(p) for p in range(3)] == [30, 10, 10]
    assert split.calibrating(1) == (0,) and split.final == (0, 1)


@pytest.mark.parametrize("count", [1, 2, 5, 29])
def test_few_pictures_are_judged_by_models_that_do_not_know_them(count: int) -> None:
    split = split_of(count)
    assert not split.is_disjoint and split.size(*split.choose) == count
    if count > 1:
        assert all(p not in split.calibrating(p) for p in split.choose)


def test_ranges_hold_zero_and_cut_a_lone_outlier_where_that_pays() -> None:
    values = np.random.default_rng(0).normal(2, 1, 20_000).astype(np.float32)
    values[0] = 60.0
    statistics = part(values)
    assert range_of(statistics, "minmax")[1] == 60.0
    assert range_of(statistics, "mse")[1] < 60.0
    assert all(range_of(statistics, m)[0] <= 0 <= range_of(statistics, m)[1] for m in METHODS)


@pytest.mark.parametrize("array", [np.zeros(8, np.float32), np.empty(0, np.float32), np.full(8, 3.0, np.float32)])
def test_empty_and_constant_tensors_have_a_finite_range_and_scale(array: np.ndarray) -> None:
    for method in METHODS:
        scale, zero = activation_parameters(range_of(part(array), method), np.uint8)
        assert np.isfinite(scale) and scale > 0 and 0 <= zero <= 255


def test_merged_statistics_are_those_of_all_pictures() -> None:
    first, second = np.float32([0, 1, 2, 5]), np.float32([-3, 0, 1, 9])
    together = merged([part(first), part(second)])
    assert (together.low, together.high, together.pictures) == (-3.0, 9.0, 2)
    assert range_of(together, "mean") == (-1.5, 7.0)
    assert together.histogram.counts.sum() == 8


def test_an_empty_histogram_merges_into_nothing() -> None:
    histogram = Histogram()
    histogram.merge(Histogram())
    assert histogram.limit == 0.0 and histogram.counts.sum() == 0


def test_sixteen_bits_have_headroom_and_a_fine_step() -> None:
    scale, zero = activation_parameters((-1.0, 1.0), np.uint16)
    assert scale * (65535 - zero) > 1.4 and scale < 1e-4


def test_weights_in_sixteen_bits_are_exact_to_a_step_per_channel() -> None:
    values = np.random.default_rng(0).normal(0, 1, (4, 3)).astype(np.float32)
    integers, scale = quantized_weight(values, 0, np.int16)
    assert np.abs(integers * scale[:, None] - values).max() <= scale.max()
    assert quantized_weight(values, None, np.int16)[1].shape == ()


def test_what_is_no_number_is_ruined_and_not_an_error() -> None:
    x = np.ones(4, np.float32)
    assert snr_db(x, np.full(4, np.nan, np.float32)) == NOT_FINITE_DB
    assert np.isnan(snr_db(np.zeros(4, np.float32), x)) and snr_db(x, x) == 120.0


def test_an_interval_narrows_with_pictures_and_one_picture_assures_nothing() -> None:
    values = np.random.default_rng(0).normal(20, 2, 100)
    few, many = interval(values[:5]), interval(values)
    assert few.low < many.low < many.mean < many.high < few.high
    assert interval(values[:1]).low is None and interval(values[:0]).mean is None


def test_tensors_are_ordered_by_what_they_cost_at_the_worst_output() -> None:
    rows = [Sensitivity(n, "", False, "minmax", np.array([[noise, 1e-9]])) for n, noise in (("a", 1e-4), ("b", 1e-2))]
    assert [row.tensor for row in ordered(rows)] == ["b", "a"] and ordered([]) == []


def test_the_fewest_that_hold_are_bisected() -> None:
    assert (
        fewest(100, lambda k: k >= 37) == 37 and fewest(5, lambda k: False) is None and fewest(3, lambda k: True) == 1
    )


def test_a_budget_ends_by_its_clock() -> None:
    now = [0.0]
    budget = Budget(10, lambda: now[0])
    now[0] = 6.0
    assert not budget.is_over and not budget.allows(0.5)
    now[0] = 10.0
    assert budget.is_over
