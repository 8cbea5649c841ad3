"""The points of a sweep: which values its tasks have of the fields that it varies. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from pydantic import JsonValue

from app.training.model.learning_curve import Curve

MOST_TASKS = 50


class Search(StrEnum):
    """How the points of a sweep are chosen."""

    GRID = "grid"
    """Every combination."""
    RANDOM = "random"
    OPTUNA = "optuna"
    """Each next one where the results so far are best, by Optuna's tree-structured Parzen estimator."""


class Goal(StrEnum):
    """Which values of a metric are the better ones."""

    MINIMIZE = "minimize"
    MAXIMIZE = "maximize"


@dataclass(frozen=True)
class Interval:
    """Numbers between two ends, to be drawn from."""

    low: float
    high: float
    is_log: bool = False
    """Each order of magnitude is as likely."""
    is_whole: bool = False
    """Whole numbers."""

    def draw(self, chance: random.Random) -> float:
        if not self.is_log:
            return self.rounded(chance.uniform(self.low, self.high))
        return self.rounded(math.exp(chance.uniform(math.log(self.low), math.log(self.high))))

    def rounded(self, value: float) -> float:
        """A number of three digits, so that it can be read and typed; or the nearest whole one."""
        if self.is_whole:
            return round(value)
        return min(max(float(f"{value:.3g}"), self.low), self.high)

    @property
    def size(self) -> float:
        return self.high - self.low + 1 if self.is_whole else math.inf


Values = Sequence[JsonValue] | Interval
Point = dict[str, JsonValue]


def size_of(vary: Mapping[str, Values]) -> float:
    """How many points there are; infinite with an interval of broken numbers."""
    return math.prod(values.size if isinstance(values, Interval) else len(values) for values in vary.values())


def grid(vary: Mapping[str, Values]) -> list[Point]:
    """Every combination of values, the last field running fastest. Takes no interval."""
    lists = [values for values in vary.values() if not isinstance(values, Interval)]
    return [dict(zip(vary, values, strict=True)) for values in product(*lists)]


def draw_points(vary: Mapping[str, Values], most: int, seed: int) -> list[Point]:
    """So many points at random, none twice; fewer where there are not so many. The same for the same seed."""
    chance = random.Random(seed)  # noqa: S311  # nothing secret
    points: list[Point] = []
    for _ in range(100 * most):
        if len(points) >= min(most, size_of(vary)):
            break
        point: Point = {
            field: values.draw(chance) if isinstance(values, Interval) else chance.choice(values)
            for field, values in vary.items()
        }
        points += [point] if point not in points else []
    return points


@dataclass(frozen=True)
class EarlyStop:
    """Asynchronous successive halving (ASHA): which tasks are compared when, and how many go on."""

    min_steps: int
    """The first comparison. The next ones are at this many steps times the factor, its square and so on."""
    reduction_factor: int = 3
    """One of so many goes on."""


@dataclass(frozen=True)
class RungValue:
    """What a task had reached at a comparison."""

    step: int
    """Of the comparison."""
    value: float


def new_rungs(curve: Curve, rule: EarlyStop, passed: int) -> list[RungValue]:
    """The comparisons that a task has come to.

    Args:
        curve: its values of the metric; at each comparison the first one from that step on counts.
        passed: how many are on record.
    """
    rungs: list[RungValue] = []
    step = rule.min_steps * rule.reduction_factor**passed
    for place, at in enumerate(curve.steps):
        while at >= step:
            rungs.append(RungValue(step, curve.values[place]))
            step *= rule.reduction_factor
    return rungs


def label_of(point: Mapping[str, JsonValue]) -> str:
    """As "lr=1e-06 seed=2": fields by the last part of their names."""
    return " ".join(f"{field.rpartition('.')[2]}={_to_text(value)}" for field, value in point.items())


def _to_text(value: JsonValue) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
