"""The inputs of a model while it is checked: the job's reference samples, or seeded noise if there are none.

Samples that all fit into a small budget stay decoded, so that several passes decode each picture once; otherwise they
are streamed in every pass, so memory does not grow with their number.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from app.conversion.toolchains.base import StageRequest

Array = npt.NDArray[Any]

CACHE_BYTES = 64 << 20
DRAWN_BYTES = 8
"""Bytes of each random number before it is converted to its type."""
NOISE_SEED = 20240


class SampleArrays(Protocol):
    """The inputs of one run: a named sample."""

    @property
    def name(self) -> str: ...
    @property
    def arrays(self) -> Mapping[str, Array]: ...


class Samples(Protocol):
    """A set of samples for several passes, such as SampleSet and CachedSamples."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[SampleArrays]: ...


class CachedSamples:
    """The same samples, decoded only once if all of them fit into `budget_bytes`; otherwise nothing is kept, and each
    pass reads them again. Order and content are those of the source.
    """

    def __init__(self, source: Samples, budget_bytes: int = CACHE_BYTES) -> None:
        self._source = source
        self._budget_bytes = budget_bytes
        self._kept: list[SampleArrays] | None = None

    def __len__(self) -> int:
        return len(self._source)

    def __iter__(self) -> Iterator[SampleArrays]:
        if self._kept is not None:
            yield from self._kept
            return
        read: list[SampleArrays] = []
        left = self._budget_bytes
        for sample in self._source:
            left -= sum(array.nbytes for array in sample.arrays.values())
            if left >= 0:
                read.append(sample)
            else:
                read.clear()
            yield sample
        if left >= 0:
            self._kept = read


def first(samples: Samples, count: int) -> Iterator[SampleArrays]:
    """Yields at most `count` samples without reading the next one."""
    if count <= 0:
        return
    for index, sample in enumerate(samples):
        yield sample
        if index + 1 >= count:
            return


def reference_samples(request: StageRequest, inputs: Sequence[Any]) -> Any:
    """Returns the job's reference samples for these graph inputs (a SampleSet); None if the folder is missing or
    empty."""
    from app.conversion.toolchains.samples import SampleSet

    folder = request.ref_images
    if not folder.is_dir() or not any(folder.iterdir()):
        return None
    return SampleSet(folder, inputs, request.options.preprocess, skip_damaged=request.options.allow_damaged_images)


class Noise:
    """`count` random samples from a fixed seed, for inputs {name: (shape, dtype, lowest, highest)}, uniformly
    distributed."""

    def __init__(self, inputs: Mapping[str, tuple[tuple[int, ...], str, float, float]], count: int) -> None:
        self._inputs = inputs
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[SampleArrays]:
        for index in range(self._count):
            rng = np.random.default_rng([NOISE_SEED, index])
            arrays = {name: _draw_random(rng, *spec) for name, spec in self._inputs.items()}
            yield _NoiseSample(f"random {index}", arrays)


class _NoiseSample:
    def __init__(self, name: str, arrays: Mapping[str, Array]) -> None:
        self.name = name
        self.arrays = arrays


def _draw_random(rng: np.random.Generator, shape: tuple[int, ...], dtype: str, lowest: float, highest: float) -> Array:
    if math.prod(shape) * DRAWN_BYTES > sys.maxsize:  # NumPy raises ValueError here, though it is a lack of memory
        raise MemoryError
    return rng.uniform(lowest, highest, shape).astype(dtype)
