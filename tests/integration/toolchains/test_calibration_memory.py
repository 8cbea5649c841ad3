"""What calibration holds at once, measured in a process of its own: what is traced is the whole process, with whatever
other threads tests left in it."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.harness.models.sample_stream import Stream, ranges


def peaks_bytes(method: str, *counts: int) -> list[int]:
    """The most memory held at once while so many samples are calibrated on, for each of the counts."""
    ranges(Stream(5), method)
    peaks = []
    for count in counts:
        gc.collect()
        tracemalloc.start()
        ranges(Stream(count), method)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return peaks


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as made:
        yield made


@pytest.mark.parametrize("method", ["minmax", "percentile"])
def test_calibration_memory_does_not_grow_with_the_number_of_samples(pool: ProcessPoolExecutor, method: str) -> None:
    few, many = pool.submit(peaks_bytes, method, 20, 400).result()
    assert many < few * 1.2 + 100_000
