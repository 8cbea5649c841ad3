"""The samples of a pass, with those kept by which candidates are judged."""

from __future__ import annotations

from collections.abc import Iterator

from app.conversion.toolchains.host.inputs import SampleArrays, Samples
from app.conversion.toolchains.host.search.split import Split

PICTURE_BYTES = 160 << 20
"""Of pictures that are kept decoded for judging."""


class KeptSamples:
    """Samples that keep those by which candidates are judged, as far as there is room."""

    def __init__(self, samples: Samples, split: Split, kept: dict[int, list[SampleArrays]]) -> None:
        self._samples, self._split, self._kept, self._room = samples, split, kept, PICTURE_BYTES

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[SampleArrays]:
        for place, sample in enumerate(self._samples):
            part = self._split.part_of[min(place, len(self._split.part_of) - 1)]
            size = sum(array.nbytes for array in sample.arrays.values())
            if part in self._split.judging and (size <= self._room or not self._kept[part]):
                self._kept[part].append(sample)
                self._room -= size
            yield sample
