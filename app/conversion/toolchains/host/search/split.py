"""Which pictures calibrate, which choose between candidates, and which the result is reported on.

From 30 pictures on these are three disjoint sets. With fewer, each picture is judged by a model that was calibrated
without it (k-fold); the same pictures then choose and report, which the judgement says.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SEED = 20261124
SPLIT_FROM = 30
"""Pictures from which on three sets are made of them."""
CHOOSE_SHARE, REPORT_SHARE, SET_MIN, CHOOSE_MAX, REPORT_MAX = 0.3, 0.2, 10, 24, 64
FOLDS = 3


@dataclass(frozen=True)
class Split:
    """Every picture has a part; statistics are kept by part, so that any of them can be left out.

    Args:
        part_of: The part of each picture, in the order of the pictures.
        parts: How many there are.
        choose: Parts that judge candidates, each by a model calibrated on `calibrating(part)`.
        report: The part that reports; None where those that choose do.
    """

    part_of: tuple[int, ...]
    parts: int
    choose: tuple[int, ...]
    report: int | None

    def calibrating(self, part: int) -> tuple[int, ...]:
        """The parts whose statistics a model judged on `part` is made of."""
        if self.report is not None:
            return (0,) if part == 1 else (0, 1)
        return tuple(p for p in range(self.parts) if p != part) or (part,)

    @property
    def final(self) -> tuple[int, ...]:
        """The parts that calibrate the file that is handed out."""
        return (0, 1) if self.report is not None else tuple(range(self.parts))

    def size(self, *parts: int) -> int:
        return sum(part in parts for part in self.part_of)

    @property
    def judging(self) -> frozenset[int]:
        """The parts whose pictures are run by candidates."""
        return frozenset(self.choose) | ({self.report} if self.report is not None else frozenset())


def split_of(count: int, seed: int = SEED) -> Split:
    """Split `count` pictures, the same way each time."""
    order = np.random.default_rng(seed).permutation(count)
    part_of = np.zeros(count, dtype=int)
    if count >= SPLIT_FROM:
        choose = min(max(SET_MIN, round(CHOOSE_SHARE * count)), CHOOSE_MAX)
        report = min(max(SET_MIN, round(REPORT_SHARE * count)), REPORT_MAX)
        part_of[order[:choose]] = 1
        part_of[order[choose : choose + report]] = 2
        return Split(tuple(int(p) for p in part_of), 3, (1,), 2)
    parts = max(1, min(FOLDS, count))
    part_of[order] = np.arange(count) % parts
    return Split(tuple(int(p) for p in part_of), parts, tuple(range(parts)), None)
