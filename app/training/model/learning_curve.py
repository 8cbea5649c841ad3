"""Metrics that a program reported during training: numbers by name and step, read from lines of JSON. Pure.

A line is in the format of verl's file logger, `{"step": 3, "data": {"actor/lr": 0.7}}`, or flat, `{"step": 3, "loss":
0.7}`. Either may have `time`, in seconds since 1970.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

from app.kit.text.json_values import is_number
from app.kit.text.untrusted_json import UnreadableJson, read_json

NODES_FILE = "nodes.jsonl"
"""Rows of the same kind about the nodes of the attempt, with the time as their step."""
METRICS_FILE = "metrics.jsonl"
"""In the folder of an attempt: what its program tells while it trains, a line a step."""
STEP, DATA, TIME = "step", "data", "time"
STEP_SECONDS = "timing_s/step"
"""What verl says each step took; the time of a row that carries none is their sum."""
MOST_NAMES = 500
NAME_CHARS = 200
POINT_BYTES, CURVE_BYTES = 24, 1024
LOWER_IS_BETTER = frozenset(["loss", "error", "perplexity", "ppl", "nll", "mae", "mse", "rmse"])
HIGHER_IS_BETTER = frozenset(
    ["acc", "accuracy", "reward", "rewards", "score", "f1", "map", "auc", "bleu", "rouge", "iou", "throughput", "mfu"]
)
"""Words of a name."""
NEITHER = frozenset(("pg",))
"""A policy gradient's loss goes up and down around nothing."""


class Point(NamedTuple):
    step: float
    value: float
    time_s: float
    """Since the first row; NaN where it is unknown."""


@dataclass
class Curve:
    """One figure over the steps, in the order in which it was told."""

    steps: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))
    times_s: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self.times_s)  # the last one to be added: a reader in another thread finds whole points

    def __getitem__(self, at: int) -> Point:
        return Point(self.steps[at], self.values[at], self.times_s[at])

    @property
    def has_times(self) -> bool:
        return not any(map(math.isnan, self.times_s))

    def add(self, point: Point) -> None:
        self.steps.append(point.step)
        self.values.append(point.value)
        self.times_s.append(point.time_s)

    def copy(self) -> Curve:
        """The points there are now."""
        count = len(self)
        return Curve(self.steps[:count], self.values[:count], self.times_s[:count])

    def before(self, step: float) -> Curve:
        """The points below a step."""
        kept = Curve()
        for at in range(len(self)):
            if self.steps[at] < step:
                kept.add(self[at])
        return kept


class LearningCurves:
    """The curves of one file, read bit by bit as it grows."""

    def __init__(self) -> None:
        self.curves: dict[str, Curve] = {}
        self.row_count = 0
        self.point_count = 0
        self.unreadable_count = 0
        """Lines that are no row."""
        self.first_step = math.inf
        self._rest = b""
        self._began_at: float | None = None
        self._summed_s = 0.0

    @property
    def size_bytes(self) -> int:
        """About what it takes in memory."""
        return self.point_count * POINT_BYTES + (1 + len(self.curves)) * CURVE_BYTES + len(self._rest)

    def feed(self, data: bytes) -> None:
        """Add what comes next in the file; a line without its end is kept until that comes."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.strip():
                self._add(line)

    def _add(self, line: bytes) -> None:
        try:
            row = read_json(line)
        except UnreadableJson:
            row = None
        step = row.get(STEP) if isinstance(row, dict) else None
        if not isinstance(row, dict) or not _is_number(step):
            self.unreadable_count += 1
            return
        values = row[DATA] if isinstance(row.get(DATA), dict) else row
        self.row_count += 1
        self.first_step = min(self.first_step, step)
        time_s = self._time_of(row, values)
        for name, value in values.items():
            if name in (STEP, TIME) or not _is_number(value) or not _is_name(name):
                continue
            if name in self.curves or len(self.curves) < MOST_NAMES:
                self.curves.setdefault(name, Curve()).add(Point(step, value, time_s))
                self.point_count += 1

    def _time_of(self, row: Mapping[str, Any], values: Mapping[str, Any]) -> float:
        at = row.get(TIME, values.get(TIME))
        if _is_number(at):
            self._began_at = at if self._began_at is None else self._began_at
            return float(at - self._began_at)
        took_s = values.get(STEP_SECONDS)
        if _is_number(took_s):
            self._summed_s += took_s
            return self._summed_s
        return math.nan if not self._summed_s else self._summed_s


def join_curves(attempts: Iterable[LearningCurves]) -> dict[str, Curve]:
    """The curves of a task over all its attempts: what a later attempt did again takes the place of what was before."""
    whole: dict[str, Curve] = {}
    offset_s = 0.0
    for attempt in attempts:
        whole = {name: curve.before(attempt.first_step) for name, curve in whole.items()}
        offset_s = max((curve.times_s[-1] for curve in whole.values() if len(curve)), default=0.0)
        for name, curve in list(attempt.curves.items()):
            if name not in whole and not offset_s:
                whole[name] = curve.copy()
                continue
            target = whole.setdefault(name, Curve())
            for at in range(len(curve)):
                step, value, time_s = curve[at]
                target.add(Point(step, value, time_s + offset_s))
    return {name: curve for name, curve in whole.items() if len(curve)}


def is_lower_better(name: str) -> bool | None:
    """Of a loss it is, of a reward it is not; None if the name tells neither."""
    words = name.lower().replace("/", " ").replace("_", " ").replace("-", " ").replace("@", " ").split()
    if NEITHER.intersection(words):
        return None
    if LOWER_IS_BETTER.intersection(words):
        return True
    return False if HIGHER_IS_BETTER.intersection(words) else None


def best_of(name: str, curve: Curve, *, is_lower: bool | None = None) -> Point | None:
    """The point that a reader looks for: the least loss, the highest reward. None if neither the name nor is_lower
    tells."""
    is_lower = is_lower_better(name) if is_lower is None else is_lower
    if is_lower is None:
        return None
    return curve[curve.values.index(min(curve.values) if is_lower else max(curve.values))]


def smoothed(values: Sequence[float], weight: float) -> list[float]:
    """An exponential mean that does not lag at its start.

    Args:
        weight: 0 (as it is) to below 1; of all that came before.
    """
    mean = share = 0.0
    result = []
    for value in values:
        mean = weight * mean + (1 - weight) * value
        share = weight * share + (1 - weight)
        result.append(mean / share)
    return result


def thin_places(values: Sequence[float], most: int) -> list[int]:
    """Places of at most so many values that look the same drawn: of each stretch the lowest and the highest.

    The last one is always among them.
    """
    if len(values) <= most:
        return list(range(len(values)))
    stretches = max(1, (most - 1) // 2)
    kept: list[int] = []
    for number in range(stretches):
        begin, end = number * len(values) // stretches, (number + 1) * len(values) // stretches
        stretch = values[begin:end]
        kept += sorted({begin + stretch.index(min(stretch)), begin + stretch.index(max(stretch))})
    return kept if kept[-1] == len(values) - 1 else [*kept, len(values) - 1]


def _is_number(value: object) -> TypeGuard[float]:
    return is_number(value) and _is_finite(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond a float's
        return False


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= NAME_CHARS and name.isprintable()
