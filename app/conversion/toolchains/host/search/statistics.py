"""Statistics of the float model's activations, collected in one pass over the pictures: per tensor and part of the
split the range, the mean of the pictures' ranges, a histogram, and the range of each channel. Some pictures are also
run altered, and counted separately, so that ranges that clip extremes do not clip what other scenes need.

Memory does not grow with the number of pictures. Tensors leave the runtime in groups of bounded size, one picture at a
time.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.conversion.toolchains.host.calibration import HUGE, bytes_with_outputs, is_moderate, tensor_sizes
from app.conversion.toolchains.host.equivalence import require_finite_arrays
from app.conversion.toolchains.host.histogram import Histogram
from app.conversion.toolchains.host.inputs import Array, Samples
from app.conversion.toolchains.host.search.alterations import ALTERATIONS, altered
from app.conversion.toolchains.host.search.split import Split
from app.inference.runtimes.sessions import open_session, run

GROUP_BYTES = 128 << 20
"""Size of the inner tensors that one run returns."""
HISTOGRAM_PICTURES = 64
"""After this many pictures of a part, further ones widen its ranges, but are not added to its histogram."""
HISTOGRAM_VALUES = 1 << 16
"""Number of values from one tensor of one picture, evenly spread over each axis; extremes are taken from all values."""
ALTERED_EVERY = 3
"""One in this many pictures is altered as well, by each alteration in turn."""

Step = Callable[[int, int], None]


@dataclass
class PartStatistics:
    """Statistics of one tensor over the pictures of one part."""

    pictures: int = 0
    low: float = np.inf
    high: float = -np.inf
    sum_low: float = 0.0
    sum_high: float = 0.0
    channel_most: Array | float = 0.0
    """Largest magnitude of each channel (axis 1); 0 for a tensor without channels."""
    histogram: Histogram = field(default_factory=Histogram)

    def add(self, array: Array) -> bool:
        """Add the tensor of one picture; an empty one is ignored.

        Returns:
            False, without adding it, if a value is NaN, infinite or above HUGE.
        """
        if array.size == 0:
            return True
        lowest, highest = _find_extremes(array)
        low, high = float(lowest.min()), float(highest.max())
        if not (low > -HUGE and high < HUGE):  # NaN fails both comparisons
            return False
        self.low, self.high = min(self.low, low), max(self.high, high)
        self.sum_low, self.sum_high = self.sum_low + low, self.sum_high + high
        if array.ndim >= 3:
            self.channel_most = np.maximum(self.channel_most, np.maximum(highest, -lowest))
        self.pictures += 1
        if self.pictures <= HISTOGRAM_PICTURES:
            stride = _choose_stride(array.size)
            self.histogram.add(array.reshape(-1)[self.pictures % stride :: stride])
        return True


@dataclass
class ActivationStatistics:
    """By tensor, an entry for each part."""

    parts: dict[str, tuple[PartStatistics, ...]]
    altered: dict[str, tuple[PartStatistics, ...]]
    """From the altered pictures of that part."""
    not_finite: dict[str, str]
    """Inner tensors with NaN, an infinity or a value above HUGE, and the picture where it occurred; they stay in
    float."""
    pictures: Counter[int] = field(default_factory=Counter)
    """Number of pictures, by part."""

    def of(self, tensor: str, parts: Sequence[int], *, with_altered: bool = False) -> PartStatistics:
        """Returns the tensor's statistics over these parts."""
        chosen = [self.parts[tensor][part] for part in parts]
        if with_altered:
            chosen += [self.altered[tensor][part] for part in parts]
        return merge_statistics(chosen)


def merge_statistics(parts: Sequence[PartStatistics]) -> PartStatistics:
    if len(parts) == 1:
        return parts[0]
    total = PartStatistics()
    for part in parts:
        if part.pictures == 0:
            continue
        total.pictures += part.pictures
        total.low, total.high = min(total.low, part.low), max(total.high, part.high)
        total.sum_low, total.sum_high = total.sum_low + part.sum_low, total.sum_high + part.sum_high
        total.channel_most = np.maximum(total.channel_most, part.channel_most)
        total.histogram.merge(part.histogram)
    return total


def collect(
    model: Any,
    tensors: Sequence[str],
    samples: Samples,
    split: Split,
    *,
    threads: int,
    step: Step,
    are_known: bool = False,
) -> ActivationStatistics:
    """Run the float model over all samples; those that report are only looked at for what is not finite.

    Args:
        model: onnx.ModelProto, float.
        tensors: those whose statistics are kept, by name.
        split: the part of each sample.
        threads: of onnxruntime.
        step: called after each sample with how many are done, and of how many.
        are_known: they were looked at before, so those that report are omitted.

    Raises:
        NotFinite: An input or an output of the model holds a NaN or an infinity.
    """
    given, changed = ({name: _make_empty(split.parts) for name in tensors} for _ in range(2))
    statistics = ActivationStatistics(given, changed, {})
    sessions = [(open_session(bytes_with_outputs(model, group), threads), group) for group in groups_of(model, tensors)]
    own = [output.name for output in model.graph.output]
    kinds = itertools.cycle(ALTERATIONS)
    for place, (part, sample) in enumerate(zip(split.part_of, samples, strict=False)):
        if are_known and part not in split.final:
            continue
        require_finite_arrays(sample.arrays, sample.name)
        for name, array in _iterate_values(sessions, own, sample.arrays, sample.name):
            taken_in = statistics.parts[name][part].add(array) if part in split.final else is_moderate(array)
            if not taken_in:
                statistics.not_finite.setdefault(name, sample.name)
        if part in split.final and statistics.pictures[part] % ALTERED_EVERY == 0:
            for name, array in _iterate_values(sessions, own, altered(sample.arrays, next(kinds)) or {}):
                statistics.altered[name][part].add(array)
        statistics.pictures[part] += 1
        step(place + 1, len(samples))
    return statistics


def _make_empty(count: int) -> tuple[PartStatistics, ...]:
    return tuple(PartStatistics() for _ in range(count))


def _iterate_values(
    sessions: list[tuple[Any, list[str]]], own: list[str], arrays: Mapping[str, Array], sample: str = ""
) -> Iterator[tuple[str, Array]]:
    """Yields tensors by name; nothing without arrays.

    Raises:
        NotFinite: An output is not finite; only for a sample with a name.
    """
    for number, (session, group) in enumerate(sessions if arrays else []):
        values = run(session, arrays, None)
        if number == 0 and sample:
            require_finite_arrays({name: values[name] for name in own if name in values}, sample)
        for name in group:
            yield name, values.pop(name) if name not in own else values[name]


def groups_of(model: Any, tensors: Sequence[str]) -> list[list[str]]:
    """Returns the tensors in groups that one run returns; one empty group without tensors."""
    sizes: Mapping[str, int] = tensor_sizes(model)
    groups: list[list[str]] = [[]]
    room = GROUP_BYTES
    for name in tensors:
        size = sizes.get(name, 0)
        if groups[-1] and size > room:
            groups.append([])
            room = GROUP_BYTES
        groups[-1].append(name)
        room -= size
    return groups


def _choose_stride(size: int) -> int:
    """Returns the distance of the values that a histogram counts: without a factor in common with the size of any axis,
    since of one in six values of 384 channels all would be of the same 64 channels."""
    stride = max(1, size // HISTOGRAM_VALUES)
    while math.gcd(stride, size) > 1:
        stride += 1
    return stride


def _find_extremes(array: Array) -> tuple[Array, Array]:
    """Returns the lowest and the highest value of each channel (axis 1), or of all if there are none."""
    if array.ndim < 3:
        return array.min(keepdims=True).reshape(1), array.max(keepdims=True).reshape(1)
    if array.shape[0] == 1:
        rows = array.reshape(array.shape[1], -1)
        return rows.min(axis=1), rows.max(axis=1)
    others = tuple(axis for axis in range(array.ndim) if axis != 1)
    return array.min(axis=others), array.max(axis=others)
