"""Which pictures calibrate, which choose between candidates, and which the result is reported on.

From 30 pictures on these are three disjoint sets, and those that choose and report are dissimilar. With fewer,
each picture is judged by a model that was calibrated without it (k-fold); the same pictures then choose and report,
which the judgement states. A user's own reporting set is used in both cases, and the others calibrate and choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from app.conversion.sample_kinds import flattened
from app.conversion.toolchains.host.search.unlikeness import Looks, unlike

SEED = 20261124
SPLIT_FROM = 30
"""Pictures from which on three sets are made of them."""
CHOOSE_SHARE, REPORT_SHARE, SET_MIN, CHOOSE_MAX, REPORT_MAX = 0.3, 0.2, 10, 24, 64
FOLDS = 3


@dataclass(frozen=True)
class Split:
    """Every picture has a part; statistics are kept by part, so that any of them can be omitted.

    Args:
        part_of: The part of each picture, in the order of the pictures.
        parts: How many there are.
        choose: Parts that judge candidates, each by a model calibrated on `calibrating(part)`.
        report: The part that reports; None if those that choose do.
        is_own_set: It was named to be that.
    """

    part_of: tuple[int, ...]
    parts: int
    choose: tuple[int, ...]
    report: int | None
    is_own_set: bool = False

    def calibrating(self, part: int) -> tuple[int, ...]:
        """The parts whose statistics a model judged on `part` is made of."""
        return tuple(p for p in self.final if p != part) or (part,)

    @property
    def final(self) -> tuple[int, ...]:
        """The parts that calibrate the file that is handed out."""
        return tuple(part for part in range(self.parts) if part != self.report)

    def size(self, *parts: int) -> int:
        return sum(part in parts for part in self.part_of)

    def places(self, part: int | None) -> tuple[int, ...]:
        """Of the pictures of a part."""
        return tuple(place for place, own in enumerate(self.part_of) if own == part)

    @property
    def judging(self) -> frozenset[int]:
        """The parts whose pictures are run by candidates."""
        return frozenset(self.choose) | ({self.report} if self.report is not None else frozenset())


def split_of(looks: Looks, own: Iterable[int] = ()) -> Split:
    """Split pictures, the same way each time.

    Args:
        looks: Of each of them, as `looks_of` gives them.
        own: Places of those that are to report; some must be left.
    """
    count, reporting = len(looks), sorted(own)
    left = np.setdiff1d(np.arange(count), reporting)
    part_of = np.zeros(count, dtype=int)
    if left.size >= SPLIT_FROM:
        choose = min(max(SET_MIN, round(CHOOSE_SHARE * left.size)), CHOOSE_MAX)
        report = 0 if reporting else min(max(SET_MIN, round(REPORT_SHARE * left.size)), REPORT_MAX)
        apart = unlike(looks, [int(place) for place in left], choose + report)
        set_aside = apart[: 2 * report : 2]  # in turn, so that both are as unlike
        part_of[apart] = 1
        part_of[[*reporting, *set_aside]] = 2
        return Split(tuple(int(p) for p in part_of), 3, (1,), 2, bool(reporting))
    order = left[np.random.default_rng(SEED).permutation(left.size)]
    folds = max(1, min(FOLDS, left.size))
    part_of[order] = np.arange(left.size) % folds
    part_of[reporting] = folds
    report_part = folds if reporting else None
    parts = folds + bool(reporting)
    return Split(tuple(int(p) for p in part_of), parts, tuple(range(folds)), report_part, bool(reporting))


def within(names: Sequence[str], folder: str) -> tuple[int, ...]:
    """Places of the samples that lie in this folder of the archive.

    Args:
        names: Of samples, as they were unpacked or as they lie below a folder.
        folder: Such as "report" or "pictures/report".
    """
    beginning = flattened(folder) + "__"
    return tuple(place for place, name in enumerate(names) if flattened(name).startswith(beginning))
