"""Samples of a small model that are made on demand, and its ranges on them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from app.conversion.options import HostQuantization
from app.conversion.toolchains.host.calibration import calibrate
from app.conversion.toolchains.host.graph_surgery import infer_shapes
from tests.harness.models.host import SIDE, convolutional

TENSORS = ("x", "c1", "r1", "c2")


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


def ranges(samples: Stream, method: str, **more: float) -> dict[str, tuple[float, float]]:
    options = HostQuantization.model_validate({"method": method, **more})
    return calibrate(
        infer_shapes(convolutional()), TENSORS, samples, options, threads=1, step=lambda done, of: None
    ).ranges
