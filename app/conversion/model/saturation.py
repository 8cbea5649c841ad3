"""How many calibration pictures are enough: the measurements and the conclusion. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from app.kit.text.json_values import JsonObject

NOISE_DB = 0.3
"""More samples that gain less gain nothing."""


@dataclass(frozen=True)
class SaturationPoint:
    samples: int
    """That set the ranges."""
    snr_db: float | None
    """Of the worst output, mean over the judges."""


@dataclass(frozen=True)
class SaturationCurve:
    points: tuple[SaturationPoint, ...]
    """By rising number of samples; the last is of all but the judges."""
    judges: int
    """Samples that judged, and set no range."""

    @property
    def enough(self) -> int | None:
        """The fewest samples that no larger number beats; None if only all of them come that far, so that more may gain
        more."""
        known = [point for point in self.points if point.snr_db is not None]
        for place, point in enumerate(known[:-1]):
            rest = max(later.snr_db or 0.0 for later in known[place + 1 :])
            if rest - (point.snr_db or 0.0) < NOISE_DB:
                return point.samples
        return None

    @property
    def most(self) -> int:
        """Samples of the last point."""
        return self.points[-1].samples

    @property
    def times(self) -> float | None:
        """How much longer calibration with all of them takes than with enough; None if more may gain more."""
        return None if self.enough is None else self.most / self.enough

    @property
    def times_text(self) -> str:
        """The same in digits, as far as they say something; empty if there is no such number."""
        return "" if self.times is None else f"{self.times:.{1 if self.times < 10 else 0}f}"

    def to_json(self) -> JsonObject:
        return {"points": [asdict(point) for point in self.points], "judges": self.judges, "enough": self.enough}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> SaturationCurve:
        points = tuple(SaturationPoint(point["samples"], point["snr_db"]) for point in values["points"])
        return SaturationCurve(points, values["judges"])
