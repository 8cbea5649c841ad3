"""Judges candidates: how far their outputs are from the float model's on pictures that set none of their ranges."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.conversion.toolchains.host.inputs import Array, Samples
from app.conversion.toolchains.host.runtime import numeric_outputs, open_session, run
from app.conversion.toolchains.host.search.split import Split
from app.conversion.toolchains.tensor_comparison import compare

KEPT_BYTES = 256 << 20
"""Of pictures and float outputs that are held for judging; further pictures judge nothing."""
Build = Callable[[int], Any]
"""The model that is to be judged on a part of the split (onnx.ModelProto)."""


@dataclass(frozen=True)
class JudgedPicture:
    part: int
    name: str
    arrays: Mapping[str, Array]
    expected: Mapping[str, Array]
    """The float model's outputs."""


@dataclass
class Score:
    """dB of SNR by output, a number a picture; silent outputs have none."""

    by_output: dict[str, list[float]] = field(default_factory=dict)
    drops: list[float] = field(default_factory=list)
    """Percent of the task's answers that changed, a number a part; empty where the task is not known."""

    @property
    def worst_output(self) -> str:
        """The name of the output with the lowest mean."""
        return min(self.by_output, key=lambda name: statistics.fmean(self.by_output[name]), default="")

    @property
    def values(self) -> list[float]:
        return self.by_output.get(self.worst_output, [])

    @property
    def mean_db(self) -> float:
        """Minus infinity where nothing could be compared."""
        return statistics.fmean(self.values) if self.values else -np.inf

    @property
    def min_db(self) -> float:
        return min(self.values, default=-np.inf)

    @property
    def drop_percent(self) -> float | None:
        return statistics.fmean(self.drops) if self.drops else None


class Judge:
    """Holds the judging pictures with the float model's outputs.

    Args:
        float_model: onnx.ModelProto.
        meter_of: makes a TaskMeter for one pass; None where the task is not known.
    """

    def __init__(
        self, float_model: Any, samples: Samples, split: Split, *, threads: int, meter_of: Callable[[], Any | None]
    ) -> None:
        self._threads = threads
        self._meter_of = meter_of
        self.pictures: list[JudgedPicture] = []
        session = open_session(float_model.SerializeToString(), threads)
        self._names = numeric_outputs(session)
        room = KEPT_BYTES
        for part, sample in zip(split.part_of, samples, strict=False):
            if part not in split.judging or room <= 0:
                continue
            expected = run(session, sample.arrays, self._names)
            room -= sum(array.nbytes for array in (*sample.arrays.values(), *expected.values()))
            self.pictures.append(JudgedPicture(part, sample.name, dict(sample.arrays), expected))

    def score(self, build: Build, parts: Sequence[int], *, most: int | None = None) -> Score:
        """Each part by the model that `build` makes for it. most: pictures of each part."""
        score = Score()
        for part in parts:
            pictures = [picture for picture in self.pictures if picture.part == part][:most]
            if pictures:
                self._judge(build(part), pictures, score)
        return score

    def _judge(self, model: Any, pictures: Sequence[JudgedPicture], score: Score) -> None:
        session = open_session(model.SerializeToString(), self._threads)
        meter = self._meter_of()
        for picture in pictures:
            actual = run(session, picture.arrays, self._names)
            for name in self._names:
                if name not in picture.expected or not np.isfinite(actual[name]).all():
                    score.by_output.setdefault(name, []).append(0.0)
                    continue
                snr_db = compare(picture.expected[name], actual[name]).snr_db
                if snr_db is not None:
                    score.by_output.setdefault(name, []).append(snr_db)
            if meter is not None:
                meter.add(picture.expected, actual)
        agreement = meter.agreement().float_agreement if meter is not None else None
        if agreement is not None:
            score.drops.append(100.0 * (1.0 - agreement))
