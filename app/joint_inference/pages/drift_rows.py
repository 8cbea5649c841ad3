"""A measurement of drift as rows of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.joint_inference.model.drift import BINS, Drift
from app.kit.web import charts

SHOWN_CLASSES = 12


@dataclass(frozen=True)
class ShareRow:
    """A bin of scores or a class: its share of the objects, in the reference and now."""

    name: str
    before: float
    now: float
    bar: Markup
    """The present, with a line at the reference."""


def score_rows(drift: Drift | None) -> list[ShareRow]:
    """By bins of scores; none while nothing was measured."""
    if drift is None or drift.measured is None:
        return []
    names = [f"{number / BINS:.1f}–{(number + 1) / BINS:.1f}" for number in range(BINS)]
    return _make_rows(names, drift.reference.distribution.scores, drift.measured.distribution.scores)


def class_rows(drift: Drift | None) -> list[ShareRow]:
    """By class, the commonest of either side first."""
    if drift is None or drift.measured is None:
        return []
    before, now = drift.reference.distribution.classes, drift.measured.distribution.classes
    names = sorted({*before, *now}, key=lambda name: (-max(before.get(name, 0), now.get(name, 0)), name))
    return _make_rows(names, [before.get(name, 0) for name in names], [now.get(name, 0) for name in names])[
        :SHOWN_CLASSES
    ]


def _make_rows(names: Sequence[str], before: Sequence[int], now: Sequence[int]) -> list[ShareRow]:
    earlier, later = ([count / max(1, sum(counts)) for count in counts] for counts in (before, now))
    most = max((*earlier, *later), default=0.0) * 1.05
    return [
        ShareRow(name, old, new, charts.bar(new, most, rule=old))
        for name, old, new in zip(names, earlier, later, strict=True)
    ]
