from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import numpy as np
import pytest

from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.calibration import calibrate
from app.conversion.toolchains.host.graph_surgery import infer_shapes
from tests.harness.models.host import SIDE, convolutional


@dataclass(frozen=True)
class OneSample:
    name: str
    arrays: dict[str, np.ndarray]


class Stream:
    """Samples made on demand that count how many of them are alive at once."""

    def __init__(self, count: int, spoiled: int | None = None) -> None:
        self.count = count
        self.made = 0
        self.alive_at_most = 0
        self._spoiled = spoiled
        self._alive = 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[OneSample]:
        for index in range(self.count):
            values = np.random.default_rng(index).normal(0, 1, (1, 3, SIDE, SIDE)).astype(np.float32)
            if index == self._spoiled:
                values[0, 0, 0, 0] = np.nan
            self.made += 1
            self._alive += 1
            weakref.finalize(values, self._forget)
            self.alive_at_most = max(self.alive_at_most, self._alive)
            yield OneSample(f"sample {index}", {"x": values})

    def _forget(self) -> None:
        self._alive -= 1


TENSORS = ("x", "c1", "r1", "c2")


def ranges(samples: Stream, method: str, **more: float) -> dict[str, tuple[float, float]]:
    options = HostQuantization.model_validate({"method": method, **more})
    return calibrate(
        infer_shapes(convolutional()), TENSORS, samples, options, threads=1, step=lambda done, of: None
    ).ranges


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


@pytest.mark.parametrize("method", ["minmax", "percentile"])
def test_calibration_memory_does_not_grow_with_the_number_of_samples(method: str) -> None:
    """In a process of its own: what is traced is the whole process, with whatever other threads tests left in it."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        few, many = pool.submit(peaks_bytes, method, 20, 400).result()
    assert many < few * 1.2 + 100_000
