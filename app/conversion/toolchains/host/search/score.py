"""The score of a candidate: its SNR by output over the pictures that judge it."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.search.interval import interval_of
from app.conversion.toolchains.host.silent_outputs import compute_power
from app.kit.text.json_values import JsonObject

FLOOR_DB = 10.0
"""No picture may be below this SNR; see `Score.floor_db`."""
SPREAD_DB_MAX = 2.0
"""The assured SNR is at most this much below the mean, in dB: beyond that, a wide interval only shows that its
pictures differ."""


@dataclass(frozen=True)
class JudgedPicture:
    """A picture with the float model's outputs."""

    part: int
    name: str
    arrays: Mapping[str, Array]
    expected: Mapping[str, Array]
    """The float model's outputs."""

    @cached_property
    def powers(self) -> dict[str, float]:
        """See `compute_power`: of each of the float model's outputs."""
        return {name: compute_power(values) for name, values in self.expected.items()}


@dataclass
class Score:
    """SNR in dB by output, a number for each picture; an output that is zero on all pictures has none.

    Args:
        is_whole: all pictures were judged, since the candidate was not given up.
    """

    by_output: dict[str, list[float]] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    """Names of those pictures."""
    lowest: dict[str, tuple[float, JudgedPicture]] = field(default_factory=dict)
    """Lowest SNR by output, with its picture; the noise of a weak output is held against more than its own power."""
    drops: list[float] = field(default_factory=list)
    """Loss of the task in percent (see `task_drop`), a number for each part; empty if not measured."""
    is_whole: bool = True
    uncounted: dict[str, int] = field(default_factory=dict)
    """Number of pictures by output that are left out, as it is nearly silent there in both models."""
    weak: dict[str, int] = field(default_factory=dict)
    """Number of pictures by output on which it is weak; see `compute_weakness_db`."""

    @property
    def worst_output(self) -> str:
        """Returns the name of the output with the lowest mean."""
        return min(self.by_output, key=lambda name: statistics.fmean(self.by_output[name]), default="")

    @property
    def values(self) -> list[float]:
        return self.by_output.get(self.worst_output, [])

    @property
    def mean_db(self) -> float:
        """Mean SNR of the worst output, in dB; minus infinity if nothing could be compared."""
        return statistics.fmean(self.values) if self.values else -np.inf

    @property
    def assured_db(self) -> float:
        """Lower end of the mean's confidence interval, in dB, within a limit below the mean; for one picture its
        SNR."""
        low, _ = interval_of(self.values)
        return self.mean_db if low is None else max(low, self.mean_db - SPREAD_DB_MAX)

    @property
    def min_db(self) -> float:
        return min(self.values, default=-np.inf)

    @property
    def floor_db(self) -> float:
        """Lowest SNR with the noise of weak outputs held against more than their own power: no lower than `min_db`."""
        lowest = self.lowest.get(self.worst_output)
        return self.min_db if lowest is None else lowest[0]

    @property
    def lowest_picture(self) -> JudgedPicture | None:
        """The picture with the lowest SNR; None if nothing could be compared."""
        return self.lowest[self.worst_output][1] if self.lowest else None

    @property
    def drop_percent(self) -> float | None:
        return statistics.fmean(self.drops) if self.drops else None

    def to_json(self, pictures: Sequence[JudgedPicture]) -> JsonObject:
        """Returns the score with the place of each lowest picture among these."""
        places = {id(picture): place for place, picture in enumerate(pictures)}
        return vars(self) | {"lowest": {name: [low, places[id(one)]] for name, (low, one) in self.lowest.items()}}

    @classmethod
    def from_json(cls, row: Mapping[str, Any], pictures: Sequence[JudgedPicture]) -> Score:
        """Reads what `to_json` wrote."""
        lowest = {name: (low, pictures[place]) for name, (low, place) in row["lowest"].items()}
        return cls(**{**row, "lowest": lowest})
