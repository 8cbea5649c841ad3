"""Drift: how far what a service sees now is from a reference, by the scores and classes of its objects. Pure.

The measure is the population stability index: the sum of (now - before) * ln(now / before) over the bins, of their
shares. Below 0.1 little has changed, above 0.25 much. Half an object is added to each bin, so that an empty one does
not make it infinite.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from app.kit.text.json_form import JsonForm

BINS = 10
"""Of scores, each 0.1 wide."""
LEAST_OBJECTS = 100
"""Of either side: with fewer, chance alone looks like drift."""
THRESHOLD = 0.25
MOST_CLASSES = 50
OTHER = ""
"""The classes beyond MOST_CLASSES together, and objects without a class."""
EMPTY_SHARE = 0.5
FALLS_TO = 0.8
"""Drift is over below this share of the threshold, so that it does not flicker."""


@dataclass(frozen=True)
class ScoreDistribution:
    """What was answered for some pictures."""

    pictures: int = 0
    scores: tuple[int, ...] = (0,) * BINS
    """Objects by score, in bins from 0 to 1."""
    classes: Mapping[str, int] = field(default_factory=dict)
    """Objects by class."""

    @property
    def objects(self) -> int:
        return sum(self.classes.values())


class ReferenceKind(StrEnum):
    CALIBRATION = "calibration"
    WINDOW = "window"


@dataclass(frozen=True)
class DriftReference:
    """What the present is compared with. Its distribution stays when calibration or rows are gone."""

    kind: ReferenceKind
    distribution: ScoreDistribution
    calibration_id: str = ""
    since: str = ""
    """Of a window; included."""
    until: str = ""
    """Of a window; excluded. What is compared with it is newer."""


@dataclass(frozen=True)
class DriftMeasurement:
    at: str
    distribution: ScoreDistribution
    scores: float | None
    """Population stability index; None: there are too few objects."""
    classes: float | None
    is_above: bool = False
    """The higher of both is above the threshold."""

    @property
    def highest(self) -> float | None:
        values = [value for value in (self.scores, self.classes) if value is not None]
        return max(values, default=None)


@dataclass(frozen=True)
class Drift:
    """The watch over a service."""

    reference: DriftReference
    threshold: float = THRESHOLD
    measured: DriftMeasurement | None = None
    """The last; None: none yet."""

    @property
    def is_above(self) -> bool:
        return self.measured is not None and self.measured.is_above

    @property
    def message(self) -> str:
        """For condition and event; empty while there is no drift."""
        if self.measured is None or not self.measured.is_above:
            return ""
        scores, classes = self.measured.scores or 0.0, self.measured.classes or 0.0
        return f"Drift: scores {scores:.2f}, classes {classes:.2f}; the threshold is {self.threshold:g}."


DRIFT = JsonForm(Drift)


def distribution_of(pictures: Iterable[Sequence[tuple[str, float | None]]]) -> ScoreDistribution:
    """pictures: class and score of each object of each picture."""
    count, scores, classes = 0, [0] * BINS, Counter[str]()
    for objects in pictures:
        count += 1
        for label, score in objects:
            classes[label] += 1
            if score is not None:
                scores[min(BINS - 1, max(0, int(score * BINS)))] += 1
    kept = dict(classes.most_common(MOST_CLASSES))
    rest = classes.total() - sum(kept.values())
    if rest:
        kept[OTHER] = kept.get(OTHER, 0) + rest
    return ScoreDistribution(count, tuple(scores), kept)


def measure(drift: Drift, now: ScoreDistribution, at: str) -> DriftMeasurement:
    """The next measurement of a watch, with what is seen now."""
    before = drift.reference.distribution
    if min(before.objects, now.objects) < LEAST_OBJECTS:
        return DriftMeasurement(at, now, None, None)
    names = sorted({*before.classes, *now.classes})
    scores = stability_index(before.scores, now.scores)
    classes = stability_index([before.classes.get(n, 0) for n in names], [now.classes.get(n, 0) for n in names])
    limit = drift.threshold * (FALLS_TO if drift.is_above else 1.0)
    return DriftMeasurement(at, now, round(scores, 4), round(classes, 4), max(scores, classes) > limit)


def stability_index(before: Sequence[int], now: Sequence[int]) -> float:
    """Population stability index of two counts over the same bins; 0: their shares are equal."""
    pairs = zip(_compute_shares(before), _compute_shares(now), strict=True)
    return sum((later - earlier) * math.log(later / earlier) for earlier, later in pairs)


def _compute_shares(counts: Sequence[int]) -> list[float]:
    total = sum(counts) + EMPTY_SHARE * len(counts)
    return [(count + EMPTY_SHARE) / total for count in counts]
