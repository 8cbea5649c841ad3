"""Judges candidates: how far their outputs are from the float model's on held-out pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from app.conversion.toolchains.host import quality
from app.conversion.toolchains.host.inputs import Array, Samples
from app.conversion.toolchains.host.output_saturation import find_judged_outputs
from app.conversion.toolchains.host.search.alterations import ALTERATIONS, altered
from app.conversion.toolchains.host.search.score import JudgedPicture, Score
from app.conversion.toolchains.host.search.split import Split
from app.conversion.toolchains.host.silent_outputs import (
    compute_power,
    compute_silent_powers,
    compute_snr_beside_zero,
    compute_weakness_db,
    is_silent_in_both,
)
from app.conversion.toolchains.host.task_drop import DropMeter
from app.conversion.toolchains.tensor_comparison import SNR_CAP_DB, TINY_ENERGY, compare, list_judged_names
from app.inference.runtimes.sessions import numeric_outputs, open_session, run

KEPT_BYTES = 256 << 20
"""Memory for pictures and float outputs; further pictures are not used for judging."""
EXAMPLES = 8
"""Number of pictures that are kept of a part that does not judge."""
NOT_FINITE_DB = -100.0
"""SNR of an output with a NaN or an infinity, or with another shape than the float model's."""
ALTERED = 8
"""Number of pictures for each alteration, spread over those that choose; fewer would not show their spread."""
RACE = 4
"""Number of pictures after which a candidate may be given up. They run one after the other, so they are also timed."""
LATENCY_RUNS, TURNS = 3, 7
Build = Callable[[int], Any]
"""Returns the model (onnx.ModelProto) to be judged on a part of the split."""


@dataclass(frozen=True)
class JudgedModel:
    """A judged candidate."""

    score: Score
    size_bytes: int
    latency_ms: float | None


class Judge:
    """Has the judging pictures with the float model's outputs.

    Args:
        float_model: onnx.ModelProto.
        threads: number of pictures that run at once.
        meter_of: makes a meter for one pass; None if the task is not known.
        logits: exposed inputs of sigmoids, by the output that comes from each.
    """

    def __init__(
        self,
        float_model: Any,
        samples: Samples,
        split: Split,
        *,
        threads: int,
        meter_of: Callable[[], DropMeter | None],
        logits: Mapping[str, str] | None = None,
    ) -> None:
        self._threads = threads
        self._meter_of = meter_of
        self._logits = logits or {}
        self.pictures: list[JudgedPicture] = []
        self._float_model = float_model
        session = self._open_float()
        self._computed = numeric_outputs(session)
        self.names = [name for name in self._computed if name not in self._logits.values()]
        room, examples = KEPT_BYTES, dict.fromkeys(range(split.parts), 0)
        for part, sample in zip(split.part_of, samples, strict=False):
            examples[part] += 1
            if room <= 0 or (part not in split.judging and examples[part] > EXAMPLES):
                continue
            expected = run(session, sample.arrays, self._computed) if part in split.judging else {}
            room -= sum(array.nbytes for array in (*sample.arrays.values(), *expected.values()))
            self.pictures.append(JudgedPicture(part, sample.name, dict(sample.arrays), expected))
        example = next((picture.expected for picture in self.pictures if picture.expected), {})
        self._judged = list_judged_names({name: example[name] for name in self.names if name in example})
        self.silent_powers = self._compute_silent_powers()
        """By output, the power below which it is nearly silent."""
        self._altered: dict[tuple[int, str], list[JudgedPicture]] = {}
        self._sessions: tuple[Build | None, dict[int, tuple[Any, Any, int]]] = (None, {})
        self.float_latency_ms = quality.latency_ms(session, self.pictures[:1], LATENCY_RUNS)

    def _compute_silent_powers(self) -> dict[str, float]:
        pictures = [picture for picture in self.pictures if picture.expected]
        own = [name for name in self._judged if name not in self._logits]
        real = [name for name in own if pictures[0].expected[name].dtype.kind == "f"]
        return compute_silent_powers({name: [picture.powers[name] for picture in pictures] for name in real})

    def examples(self, parts: Sequence[int]) -> list[JudgedPicture]:
        """Returns a few pictures of these parts."""
        return [picture for picture in self.pictures if picture.part in parts][:EXAMPLES]

    def tensors(self, picture: JudgedPicture) -> dict[str, str]:
        """Returns by which tensor each output is judged on a picture."""
        return find_judged_outputs(self._judged, picture.expected, self._logits)

    @property
    def targets(self) -> list[str]:
        """Returns the tensors that all pictures can be judged by."""
        rows = [self.tensors(picture) for picture in self.pictures if picture.expected]
        faint = {name for row in rows for name, tensor in row.items() if tensor != name}
        return [self._logits[name] if name in faint else name for name in self._judged]

    def probes(self, part: int, count: int, lowest: JudgedPicture | None) -> list[JudgedPicture]:
        """Returns at most this many pictures of a part, as different as possible, some of them altered.

        Args:
            lowest: a picture to include, unaltered.
        """
        pictures = spread([picture for picture in self.pictures if picture.part == part], count)
        if lowest is not None and lowest.part == part:
            pictures = [lowest, *(picture for picture in pictures if picture is not lowest)][:count]
        kinds = ("", *ALTERATIONS)
        return [_as_altered(picture, kinds[place % len(kinds)]) or picture for place, picture in enumerate(pictures)]

    def judge_altered(self, build: Build, parts: Sequence[int]) -> Iterator[Score]:
        """Yields the score on altered pictures, one alteration after the other; nothing if the inputs are not
        pictures."""
        for kind in ALTERATIONS:
            score = Score()
            for part in parts:
                if pictures := self._alter_pictures(part, kind, -(-ALTERED // len(parts))):
                    session, _ = self._open(build, part)
                    self._add(score, pictures, self._iterate_answers(session, pictures))
            if score.values:
                yield score

    def _open(self, build: Build, part: int) -> tuple[Any, int]:
        """Opens the model for a part. Sessions of the last build stay open.

        Returns:
            The session, and the size of the model in bytes.
        """
        if self._sessions[0] is not build:
            self._sessions = build, {}
        sessions = self._sessions[1]
        if part not in sessions:
            model = build(part)
            same = next((one for one in sessions.values() if one[0] is model), None)
            sessions[part] = same or (model, open_session(data := model.SerializeToString(), 1, "all"), len(data))
        return sessions[part][1:]

    def _open_float(self) -> Any:
        """Opens the float model, anew each time it is needed: it would hold all weights during the search."""
        return open_session(self._float_model.SerializeToString(), 1, "all")

    def _alter_pictures(self, part: int, kind: str, count: int) -> list[JudgedPicture]:
        """Returns altered pictures with the float model's outputs."""
        if (part, kind) not in self._altered:
            originals = spread([picture for picture in self.pictures if picture.part == part], count)
            made = [picture for original in originals if (picture := _as_altered(original, kind)) is not None]
            session = self._open_float()
            self._altered[part, kind] = [
                replace(picture, expected=run(session, picture.arrays, self._computed)) for picture in made
            ]
        return self._altered[part, kind]

    def judge(
        self,
        build: Build,
        parts: Sequence[int],
        *,
        is_given_up: Callable[[Score], bool] | None = None,
        needs_task: Callable[[Score], bool] | None = None,
        is_timed: bool = False,
    ) -> JudgedModel:
        """Judge each part with the model that `build` makes for it.

        Args:
            is_given_up: called with the score on the first few pictures; if it returns True, the others are not judged.
            needs_task: called with the same score; the task is measured if it returns True. None: always.
            is_timed: short runs are repeated until they tell the latency.
        """
        score, size, latency = Score(), 0, None
        for part in parts:
            pictures = [picture for picture in self.pictures if picture.part == part]
            if not pictures:
                continue
            session, size_bytes = self._open(build, part)
            first = spread(pictures, RACE)
            answers, seconds = _time_answers(session, first, self._computed)
            self._add(score, first, answers)
            if part == parts[0]:
                while is_timed and quality.is_worth_repeating(seconds, len(first)):
                    seconds += _time_answers(session, first[:1], self._computed)[1]
                size, latency = size_bytes, round(1000 * min(seconds[1:] or seconds), 3)
                if is_given_up and len(pictures) > RACE and is_given_up(score):
                    score.is_whole = False
                    return JudgedModel(score, size, latency)
            meter = self._meter_of() if needs_task is None or needs_task(score) else None
            if meter is not None:
                for picture, answer in zip(first, answers, strict=True):
                    self._measure(meter, picture, answer)
            del answers
            others = [picture for picture in pictures if not any(picture is one for one in first)]
            self._add(score, others, self._iterate_answers(session, others), meter)
            drop = meter.drop_percent() if meter is not None else None
            if drop is not None:
                score.drops.append(drop)
        return JudgedModel(score, size, latency)

    def is_slower_than_float(self, model: Any) -> bool:
        """Returns whether it is slower than the float model by more than noise, measured in turn on one thread; False
        without a picture."""
        session = open_session(model.SerializeToString(), 1, "all")
        return quality.is_slower(*quality.latencies_ms((session, self._open_float()), self.pictures[:1], TURNS))

    def _iterate_answers(self, session: Any, pictures: Sequence[JudgedPicture]) -> Iterator[dict[str, Array]]:
        with ThreadPoolExecutor(self._threads) as pool:
            yield from pool.map(lambda picture: run(session, picture.arrays, self._computed), pictures)

    def _add(
        self,
        score: Score,
        pictures: Sequence[JudgedPicture],
        answers: Iterable[Mapping[str, Array]],
        meter: DropMeter | None = None,
    ) -> None:
        for picture, actual in zip(pictures, answers, strict=True):
            for name, tensor in self.tensors(picture).items():
                powers = picture.powers[tensor], compute_power(actual[tensor])
                silent_power = self.silent_powers.get(name, 0.0)
                if is_silent_in_both(*powers, silent_power):
                    score.uncounted[name] = score.uncounted.get(name, 0) + 1
                    continue
                snr_db = _compute_snr_db(picture.expected[tensor], actual[tensor])
                if snr_db is None:
                    snr_db = compute_snr_beside_zero(powers[1], silent_power)
                if snr_db is None:
                    continue
                score.by_output.setdefault(name, []).append(snr_db)
                score.names.setdefault(name, []).append(picture.name)
                weakness_db = compute_weakness_db(powers[0], silent_power)
                if weakness_db:
                    score.weak[name] = score.weak.get(name, 0) + 1
                held_db = snr_db + weakness_db
                if name not in score.lowest or held_db < score.lowest[name][0]:
                    score.lowest[name] = held_db, picture
            if meter is not None:
                self._measure(meter, picture, actual)

    def _measure(self, meter: DropMeter, picture: JudgedPicture, actual: Mapping[str, Array]) -> None:
        """Adds the outputs without what is exposed."""
        expected, actual = ({name: arrays[name] for name in self.names} for arrays in (picture.expected, actual))
        meter.add(picture.name, expected, actual)


def _time_answers(
    session: Any, pictures: Sequence[JudgedPicture], names: Sequence[str]
) -> tuple[list[dict[str, Array]], list[float]]:
    """Runs pictures one after the other.

    Returns:
        The outputs, and the CPU time of each run in seconds.
    """
    runs = [quality.timed_run(session, picture.arrays, names) for picture in pictures]
    return [answers for answers, _ in runs], [seconds for _, seconds in runs]


def spread(pictures: Sequence[JudgedPicture], count: int) -> list[JudgedPicture]:
    """Returns at most this many of them, evenly spaced."""
    number = min(count, len(pictures))
    return [pictures[place * len(pictures) // number] for place in range(number)]


def _as_altered(picture: JudgedPicture, kind: str) -> JudgedPicture | None:
    """Returns the altered picture without the float model's outputs; None if it cannot be altered."""
    arrays = altered(picture.arrays, kind) if kind else picture.arrays
    return None if arrays is None else replace(picture, arrays=arrays)


def _compute_snr_db(expected: Array, actual: Array) -> float | None:
    """Returns the SNR in dB; None for a silent output."""
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
