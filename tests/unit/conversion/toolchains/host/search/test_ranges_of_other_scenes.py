"""Ranges that hold on pictures unlike those that were given: altered ones count, and 16 bits have room to spare."""

from __future__ import annotations

import numpy as np
import pytest

from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.histogram import Histogram
from app.conversion.toolchains.host.quantization_plan import plan
from app.conversion.toolchains.host.search.basis import Basis, basis_of
from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.integers import HEADROOM, UINT16, activation_parameters
from app.conversion.toolchains.host.search.ranges import CUTS, METHODS, least_squares, range_of
from app.conversion.toolchains.host.search.ranges import LEVELS as LEAST_SQUARES_LEVELS
from app.conversion.toolchains.host.search.split import split_of
from app.conversion.toolchains.host.search.statistics import PartStatistics
from app.conversion.toolchains.host.search.unlikeness import looks_of
from tests.unit.conversion.toolchains.host.search.test_search import LEVELS, Picture, network

SIDE = 20


def basis() -> Basis:
    """Of pictures with a small loud place in the middle, which is larger from nearer."""
    samples = []
    for place in range(6):
        array = np.random.default_rng(place).normal(size=(1, 3, SIDE, SIDE)).astype(np.float32) / 2
        array = np.round(array * LEVELS) / LEVELS
        array[:, :, 9:11, 9:11] += 4.0
        samples.append(Picture(f"p{place}", {"x": array}))
    model, options, split = network(side=SIDE), HostQuantization(), split_of(looks_of(samples))
    return basis_of(model, plan(model, options), samples, split, options, threads=1, step=lambda *_: None)


@pytest.mark.parametrize("method", ["p99.99", "mse", "mean"])
def test_ranges_that_cut_are_set_on_altered_pictures_too(method: str) -> None:
    known = basis()
    altered = known.statistics.altered["b"]
    assert [part.pictures for part in altered] == [1, 1, 1], "one in three"
    with_altered = known.ranges(Choice(method), (0, 1, 2))["b"]
    for part in altered:
        part.pictures, part.histogram.counts[:] = 0, 0
    assert basis_without(known).ranges(Choice(method), (0, 1, 2))["b"] != with_altered


def basis_without(known: Basis) -> Basis:
    """The same with no range computed yet."""
    return Basis(known.model, known.plan, known.statistics, known.template)


def test_min_max_is_what_a_plain_conversion_takes() -> None:
    known = basis()
    given = known.statistics.of("b", (0, 1, 2))
    assert known.ranges(Choice("minmax"), (0, 1, 2))["b"] == (min(given.low, 0.0), given.high)


def test_in_16_bits_the_extremes_of_altered_pictures_count() -> None:
    known = basis()
    low, high = known.ranges(Choice("mse", wide=frozenset({"b"})), (0, 1, 2))["b"]
    everything = known.statistics.of("b", (0, 1, 2), with_altered=True)
    assert (low, high) == (min(everything.low, 0.0), everything.high)
    assert high >= known.statistics.of("b", (0, 1, 2)).high


def test_in_16_bits_a_value_three_times_beyond_the_range_is_not_cut_off() -> None:
    scale, zero = activation_parameters((-1.0, 2.0), UINT16, headroom=HEADROOM)
    for value in (-3.0, 6.0):
        integer = np.clip(round(value / scale) + zero, 0, np.iinfo(UINT16).max)
        assert (integer - zero) * scale == pytest.approx(value, abs=scale)
    assert scale < 3.0 / 255 / 50, "and what is within is held far better than in 8 bits"


@pytest.mark.parametrize("method", ["p99.99", "entropy"])
def test_a_range_that_cuts_extremes_lies_inside_of_the_range_of_all_values_and_holds_zero(method: str) -> None:
    statistics = PartStatistics()
    values = np.random.default_rng(1).exponential(size=20_000).astype(np.float32)
    values[0] = 500.0
    assert statistics.add(values)
    low, high = range_of(statistics, method)
    assert low == 0.0 and 1.0 < high < 400.0


@pytest.mark.parametrize("axis", [1, 2])
def test_each_channel_of_a_large_tensor_is_counted(axis: int) -> None:
    """Of 768 × 384 values every fourth would be enough, and would be of one channel in four: 96 of the 384."""
    statistics = PartStatistics()
    values = np.random.default_rng(1).normal(size=(1, 768, 384)).astype(np.float32)
    values[:, :, 1] = 20.0
    assert statistics.add(values if axis == 2 else values.transpose(0, 2, 1))
    share_percent = 100 / 384
    assert statistics.histogram.percentile(100 - 0.8 * share_percent)[1] == 20.0
    assert statistics.histogram.percentile(100 - 1.2 * share_percent)[1] < 5.0


@pytest.mark.parametrize("method", METHODS)
def test_a_tensor_that_is_always_zero_has_a_range_by_every_method(method: str) -> None:
    statistics = PartStatistics()
    assert statistics.add(np.zeros(64, np.float32))
    assert range_of(statistics, method) == (0.0, 0.0)


@pytest.mark.parametrize("is_after_relu", [False, True])
def test_the_range_of_least_squares_is_the_one_whose_rounding_and_clipping_cost_least(is_after_relu: bool) -> None:
    """Of many usual values, and one that is larger."""
    usual = np.random.default_rng(1).normal(size=1000).astype(np.float32)
    usual = np.maximum(usual, 0) if is_after_relu else usual
    values, counts = np.append(usual, np.float32(8.0)), np.append(np.full(1000, 500), 1)
    histogram, low = Histogram(), float(usual.min())
    histogram.add(values.repeat(counts))

    def cost(low: float, high: float) -> float:
        outside = np.maximum(values - high, 0) ** 2 + np.maximum(low - values, 0) ** 2
        rounded = counts[values != 0].sum() * ((high - low) / LEAST_SQUARES_LEVELS) ** 2 / 12
        return float(rounded + (counts * outside).sum())

    chosen, others = least_squares(histogram, low, 8.0), [(a * low, b * 8.0) for a in CUTS for b in CUTS]
    assert cost(*chosen) <= 1.02 * min(cost(*one) for one in others) and cost(*chosen) < 0.9 * cost(low, 8.0)
