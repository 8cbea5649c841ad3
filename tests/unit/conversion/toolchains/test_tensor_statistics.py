"""The distances of tensors over several samples."""

from __future__ import annotations

import numpy as np
import pytest

from app.conversion.toolchains.tensor_statistics import OutputStatistics, Tally


def test_a_tally_gives_mean_minimum_fifth_percentile_and_count() -> None:
    tally = Tally()
    for value in range(101):
        tally.add(float(value))
    tally.add(None)
    assert tally.summary(2) == {"mean": 50.0, "min": 0.0, "p5": 5.0, "n": 101}


def test_an_empty_tally_says_that_nothing_was_measured() -> None:
    assert Tally().summary(2) == {"mean": None, "min": None, "p5": None, "n": 0}


def test_statistics_name_the_worst_samples_first_and_take_the_worst_output() -> None:
    statistics = OutputStatistics()
    for index, snr_db in enumerate((40.0, 10.0, 25.0)):
        x = np.ones(4, np.float32)
        y = x + np.float32(10 ** (-snr_db / 20))
        statistics.add(f"s{index}", {"good": x, "bad": x}, {"good": x, "bad": y})
    assert [entry["name"] for entry in statistics.worst_samples(2)] == ["s1", "s2"]
    assert statistics.worst_mean_snr_db == pytest.approx(25.0, abs=0.1)
    assert statistics.to_list()[0]["exact"] is True
