"""The points of a sweep: which values its tasks have of the fields that it varies. Pure."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product

from pydantic import JsonValue

MOST_TASKS = 50


class Search(StrEnum):
    """How the points of a sweep are chosen."""

    GRID = "grid"
    """Every combination."""
    RANDOM = "random"


@dataclass(frozen=True)
class Interval:
    """Numbers between two ends, to be drawn from."""

    low: float
    high: float
    is_log: bool = False
    """Each order of magnitude is as likely."""

    def draw(self, chance: random.Random) -> float:
        """A number of three digits, so that it can be read and typed."""
        if not self.is_log:
            return float(f"{chance.uniform(self.low, self.high):.3g}")
        return float(f"{math.exp(chance.uniform(math.log(self.low), math.log(self.high))):.3g}")


Values = Sequence[JsonValue] | Interval
Point = dict[str, JsonValue]


def size_of(vary: Mapping[str, Values]) -> float:
    """How many points there are; infinite with an interval."""
    return math.prod(math.inf if isinstance(values, Interval) else len(values) for values in vary.values())


def grid(vary: Mapping[str, Values]) -> list[Point]:
    """Every combination of values, the last field running fastest. Takes no interval."""
    lists = [values for values in vary.values() if not isinstance(values, Interval)]
    return [dict(zip(vary, values, strict=True)) for values in product(*lists)]


def drawn(vary: Mapping[str, Values], most: int, seed: int) -> list[Point]:
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


def label_of(point: Mapping[str, JsonValue]) -> str:
    """As "lr=1e-06 seed=2": fields by the last part of their names."""
    return " ".join(f"{field.rpartition('.')[2]}={_text(value)}" for field, value in point.items())


def _text(value: JsonValue) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
