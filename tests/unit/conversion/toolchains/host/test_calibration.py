from __future__ import annotations

import numpy as np
import pytest

from app.conversion.errors import NoSamples, NotFinite
from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.calibration import calibrate
from app.conversion.toolchains.host.graph_surgery import infer_shapes
from app.conversion.toolchains.host.histogram import BINS, Histogram
from app.conversion.toolchains.host.inputs import CachedSamples, first
from tests.harness.models.host import SIDE, convolutional
from tests.harness.models.sample_stream import TENSORS, Stream, ranges
from tests.harness.variants import exhaustive


def test_minmax_ranges_are_the_true_extremes_over_all_samples() -> None:
    whole = np.concatenate([sample.arrays["x"] for sample in Stream(12)])
    assert ranges(Stream(12), "minmax")["x"] == (float(whole.min()), float(whole.max()))


@pytest.mark.parametrize("method", ["percentile", "entropy"])
def test_clipping_methods_stay_inside_the_true_range(method: str) -> None:
    wide, narrow = ranges(Stream(8), "minmax"), ranges(Stream(8), method)
    for name in TENSORS:
        assert wide[name][0] <= narrow[name][0] + 1e-6 and narrow[name][1] <= wide[name][1] + 1e-6


def test_a_lower_percentile_clips_more() -> None:
    assert ranges(Stream(8), "percentile", percentile=90.0)["x"][1] < ranges(Stream(8), "percentile")["x"][1]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["minmax", "entropy", *exhaustive("percentile")])
def test_a_thousand_samples_never_live_at_once(method: str) -> None:
    stream = Stream(1000)
    ranges(stream, method)
    assert stream.made == 1000
    assert stream.alive_at_most <= 2


def test_progress_is_told_for_every_image() -> None:
    told: list[tuple[int, int]] = []
    calibrate(
        infer_shapes(convolutional()),
        TENSORS,
        Stream(5),
        HostQuantization(),
        threads=1,
        step=lambda done, of: told.append((done, of)),
    )
    assert told == [(1, 5), (2, 5), (3, 5), (4, 5), (5, 5)]


def test_a_nan_in_a_sample_is_named() -> None:
    with pytest.raises(NotFinite, match="'x' holds NaN for sample 'sample 2'"):
        ranges(Stream(4, spoiled=2), "minmax")


def test_calibrating_on_nothing_is_refused() -> None:
    with pytest.raises(NoSamples):
        ranges(Stream(0), "minmax")


def test_a_cache_decodes_what_fits_into_its_budget_once_and_holds_no_more_than_that() -> None:
    one = 3 * SIDE * SIDE * 4
    stream = Stream(10)
    cached = CachedSamples(stream, budget_bytes=20 * one)
    assert [s.name for s in cached] == [s.name for s in cached]
    assert stream.made == 10
    small = Stream(10)
    cached = CachedSamples(small, budget_bytes=3 * one)
    names = [s.name for s in cached]
    assert len(names) == 10 and small.alive_at_most <= 5
    assert [s.name for s in cached] == names, "read again, and whole"


def test_first_does_not_read_the_sample_after_the_last_one() -> None:
    stream = Stream(10)
    assert len(list(first(stream, 3))) == 3
    assert stream.made == 3


def test_a_histogram_keeps_its_size_and_its_counts_when_its_range_doubles() -> None:
    histogram = Histogram()
    histogram.add(np.linspace(-1e-3, 1e-3, 1000, dtype=np.float32))
    histogram.add(np.linspace(-700, 900, 5000, dtype=np.float32))
    assert histogram.counts.size == BINS and int(histogram.counts.sum()) == 6000
    assert (histogram.lowest, histogram.highest) == (-700.0, 900.0)


@pytest.mark.parametrize("magnitude", [1e-45, 1e-40, 1.0, 3e38])
def test_a_histogram_counts_values_of_any_magnitude(magnitude: float) -> None:
    histogram = Histogram()
    histogram.add(np.array([-magnitude, magnitude / 2, magnitude], np.float32))
    assert int(histogram.counts.sum()) == 3


def test_a_histogram_that_grew_reads_the_same_percentile_as_one_that_did_not() -> None:
    values = np.random.default_rng(0).normal(0, 1, 100_000).astype(np.float32)
    grown, whole = Histogram(), Histogram()
    grown.add(values[:10] * np.float32(0.01))
    for part in (values, np.zeros(0, np.float32)):
        grown.add(part)
        whole.add(part)
    assert grown.percentile(99.0)[1] == pytest.approx(whole.percentile(99.0)[1], rel=0.01)
    assert whole.percentile(99.0)[1] == pytest.approx(float(np.percentile(np.abs(values), 99)), rel=0.01)


def test_entropy_cuts_a_single_far_outlier() -> None:
    values = np.random.default_rng(0).normal(0, 1, 200_000).astype(np.float32)
    values[0] = 60.0
    histogram = Histogram()
    histogram.add(values)
    assert histogram.entropy()[1] < 20.0


def test_a_tensor_that_is_always_zero_has_an_empty_range() -> None:
    histogram = Histogram()
    histogram.add(np.zeros(100, np.float32))
    assert histogram.percentile(99.9) == (0.0, 0.0) and histogram.entropy() == (0.0, 0.0)
