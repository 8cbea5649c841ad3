"""Judges candidates: how far their outputs are from the float model's on pictures that set none of their ranges."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from app.conversion.toolchains.host import quality
from app.conversion.toolchains.host.inputs import Array, Samples
from app.conversion.toolchains.host.runtime import numeric_outputs, open_session, run
from app.conversion.toolchains.host.search.alterations import ALTERATIONS, altered
from app.conversion.toolchains.host.search.split import Split
from app.conversion.toolchains.host.task_drop import DropMeter
from app.conversion.toolchains.tensor_comparison import SNR_CAP_DB, TINY_ENERGY, compare

KEPT_BYTES = 256 << 20
"""Of pictures and float outputs that are held for judging; further pictures judge nothing."""
EXAMPLES = 8
"""Pictures that are held of a part that judges nothing."""
NOT_FINITE_DB = -100.0
"""Of an output with a NaN or an infinity, or of another shape than the float model's."""
ALTERED = 8
"""Pictures of which each alteration is judged, spread over those that choose: less would not tell their spread."""
RACE = 4
"""Pictures after which a candidate may be given up. They run one after the other, so they are what is timed, too."""
LATENCY_RUNS, TURNS = 3, 7
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
    """dB of SNR by output, a number a picture; silent outputs have none.

    Args:
        is_whole: It was not given up before all pictures were judged.
    """

    by_output: dict[str, list[float]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    """Of those pictures."""
    lowest: dict[str, tuple[float, JudgedPicture]] = field(default_factory=dict)
    """By output the lowest of them, and the picture that has it."""
    drops: list[float] = field(default_factory=list)
    """Percent of the task that is lost (see `task_drop`), a number a part; empty if the task was not measured."""
    is_whole: bool = True

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
    def lowest_picture(self) -> JudgedPicture | None:
        """None if nothing could be compared."""
        return self.lowest[self.worst_output][1] if self.lowest else None

    @property
    def drop_percent(self) -> float | None:
        return statistics.fmean(self.drops) if self.drops else None


@dataclass(frozen=True)
class JudgedModel:
    """What a candidate came to."""

    score: Score
    size_bytes: int
    latency_ms: float | None


class Judge:
    """Holds the judging pictures with the float model's outputs.

    Args:
        float_model: onnx.ModelProto.
        threads: How many pictures run at once.
        meter_of: makes a meter for one pass; None if the task is not known.
    """

    def __init__(
        self,
        float_model: Any,
        samples: Samples,
        split: Split,
        *,
        threads: int,
        meter_of: Callable[[], DropMeter | None],
    ) -> None:
        self._threads = threads
        self._meter_of = meter_of
        self.pictures: list[JudgedPicture] = []
        session = open_session(float_model.SerializeToString(), 1)
        self._float_session = session
        self.names = numeric_outputs(session)
        room, examples = KEPT_BYTES, dict.fromkeys(range(split.parts), 0)
        for part, sample in zip(split.part_of, samples, strict=False):
            examples[part] += 1
            if room <= 0 or (part not in split.judging and examples[part] > EXAMPLES):
                continue
            expected = run(session, sample.arrays, self.names) if part in split.judging else {}
            room -= sum(array.nbytes for array in (*sample.arrays.values(), *expected.values()))
            self.pictures.append(JudgedPicture(part, sample.name, dict(sample.arrays), expected))
        self._altered: dict[tuple[int, str], list[JudgedPicture]] = {}
        self._sessions: tuple[Build | None, dict[int, tuple[Any, int]]] = (None, {})
        self.float_latency_ms = quality.latency_ms(session, self.pictures[:1], LATENCY_RUNS)

    def examples(self, parts: Sequence[int]) -> list[JudgedPicture]:
        """A few pictures of these parts."""
        return [picture for picture in self.pictures if picture.part in parts][:EXAMPLES]

    def probes(self, part: int, count: int, lowest: JudgedPicture | None) -> list[JudgedPicture]:
        """At most that many pictures of a part, as unlike each other as can be had: some as they are, some altered.

        Args:
            lowest: One that shall be among them, as it is.
        """
        pictures = _spread([picture for picture in self.pictures if picture.part == part], count)
        if lowest is not None and lowest.part == part:
            pictures = [lowest, *(picture for picture in pictures if picture is not lowest)][:count]
        kinds = ("", *ALTERATIONS)
        return [_as_altered(picture, kinds[place % len(kinds)]) or picture for place, picture in enumerate(pictures)]

    def judge_altered(self, build: Build, parts: Sequence[int]) -> Iterator[Score]:
        """The score on altered pictures, one alteration after the other; none if the inputs are no pictures."""
        for kind in ALTERATIONS:
            score = Score()
            for part in parts:
                if pictures := self._altered_pictures(part, kind, -(-ALTERED // len(parts))):
                    session, _ = self._opened(build, part)
                    self._add(score, pictures, self._answers(session, pictures))
            if score.values:
                yield score

    def _opened(self, build: Build, part: int) -> tuple[Any, int]:
        """The session of what is built for a part, and its bytes; those of the last build stay open."""
        if self._sessions[0] is not build:
            self._sessions = build, {}
        sessions = self._sessions[1]
        if part not in sessions:
            data = build(part).SerializeToString()
            sessions[part] = open_session(data, 1), len(data)
        return sessions[part]

    def _altered_pictures(self, part: int, kind: str, count: int) -> list[JudgedPicture]:
        """With the float model's outputs for them."""
        if (part, kind) not in self._altered:
            originals = _spread([picture for picture in self.pictures if picture.part == part], count)
            made = [picture for original in originals if (picture := _as_altered(original, kind)) is not None]
            self._altered[part, kind] = [
                replace(picture, expected=run(self._float_session, picture.arrays, self.names)) for picture in made
            ]
        return self._altered[part, kind]

    def judge(
        self,
        build: Build,
        parts: Sequence[int],
        *,
        is_given_up: Callable[[Score], bool] | None = None,
        needs_task: Callable[[Score], bool] | None = None,
    ) -> JudgedModel:
        """Each part by the model that `build` makes for it.

        Args:
            is_given_up: Called with the score on the first few pictures; the others are not judged where it is true.
            needs_task: Likewise; the task is measured where it is true. None: always.
        """
        score, size, latency = Score(), 0, None
        for part in parts:
            pictures = [picture for picture in self.pictures if picture.part == part]
            if not pictures:
                continue
            session, size_bytes = self._opened(build, part)
            first = _spread(pictures, RACE)
            answers, seconds = _timed_answers(session, first, self.names)
            self._add(score, first, answers)
            if part == parts[0]:
                size, latency = size_bytes, round(1000 * min(seconds[1:] or seconds), 3)
                if is_given_up and len(pictures) > RACE and is_given_up(score):
                    score.is_whole = False
                    return JudgedModel(score, size, latency)
            meter = self._meter_of() if needs_task is None or needs_task(score) else None
            if meter is not None:
                for picture, answer in zip(first, answers, strict=True):
                    meter.add(picture.name, picture.expected, answer)
            del answers
            others = [picture for picture in pictures if not any(picture is one for one in first)]
            self._add(score, others, self._answers(session, others), meter)
            drop = meter.drop_percent() if meter is not None else None
            if drop is not None:
                score.drops.append(drop)
        return JudgedModel(score, size, latency)

    def is_slower_than_float(self, model: Any) -> bool:
        """By more than noise, measured in turn on one thread; False where there is no picture to measure on."""
        session = open_session(model.SerializeToString(), 1)
        return quality.is_slower(*quality.latencies_ms((session, self._float_session), self.pictures[:1], TURNS))

    def _answers(self, session: Any, pictures: Sequence[JudgedPicture]) -> Iterator[dict[str, Array]]:
        with ThreadPoolExecutor(self._threads) as pool:
            yield from pool.map(lambda picture: run(session, picture.arrays, self.names), pictures)

    def _add(
        self,
        score: Score,
        pictures: Sequence[JudgedPicture],
        answers: Iterable[Mapping[str, Array]],
        meter: DropMeter | None = None,
    ) -> None:
        for picture, actual in zip(pictures, answers, strict=True):
            for name in self.names:
                snr_db = _snr_db(picture.expected[name], actual[name])
                if snr_db is None:
                    continue
                score.by_output.setdefault(name, []).append(snr_db)
                score.names.setdefault(name, []).append(picture.name)
                if name not in score.lowest or snr_db < score.lowest[name][0]:
                    score.lowest[name] = snr_db, picture
            if meter is not None:
                meter.add(picture.name, picture.expected, actual)


def _timed_answers(
    session: Any, pictures: Sequence[JudgedPicture], names: Sequence[str]
) -> tuple[list[dict[str, Array]], list[float]]:
    """One after the other, and the seconds of each."""
    answers, seconds = [], []
    for picture in pictures:
        begin = time.perf_counter()
        answers.append(run(session, picture.arrays, names))
        seconds.append(time.perf_counter() - begin)
    return answers, seconds


def _spread(pictures: Sequence[JudgedPicture], count: int) -> list[JudgedPicture]:
    """So many of them at most, evenly spaced."""
    number = min(count, len(pictures))
    return [pictures[place * len(pictures) // number] for place in range(number)]


def _as_altered(picture: JudgedPicture, kind: str) -> JudgedPicture | None:
    """Without what the float model says of it; None if it cannot be altered so."""
    arrays = altered(picture.arrays, kind) if kind else picture.arrays
    return None if arrays is None else replace(picture, arrays=arrays)


def _snr_db(expected: Array, actual: Array) -> float | None:
    """None for a silent output."""
    if actual.shape != expected.shape:
        return NOT_FINITE_DB
    if expected.dtype == actual.dtype == np.float32 and expected.size:
        x = expected.reshape(-1)
        with np.errstate(over="ignore", invalid="ignore"):
            difference = x - actual.reshape(-1)
            energy, noise = float(np.dot(x, x)), float(np.dot(difference, difference))
        if TINY_ENERGY < noise < np.inf and TINY_ENERGY < energy < np.inf:
            return min(SNR_CAP_DB, 10.0 * math.log10(energy / noise))
    return compare(expected, actual).snr_db if np.isfinite(actual).all() else NOT_FINITE_DB
