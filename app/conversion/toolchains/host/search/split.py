"""Which pictures calibrate, which choose between candidates, and which are used for the report.

From 30 pictures on these are three disjoint sets, and those that choose and report are dissimilar. Up to 49, those that
choose are judged in two halves, each by a model that was calibrated without it: without both only few and similar
pictures would calibrate, and cut what the delivered model does not (up to 20 dB below it). With fewer than 30, each
picture is judged by a model that was calibrated without it (k-fold); the same pictures then choose and report, which
the judgement states. A user's own reporting set is used in both cases, and the others calibrate and choose.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from app.conversion.sample_kinds import flatten_path
from app.conversion.toolchains.host.search.unlikeness import Looks, unlike

SEED = 20261124
SPLIT_FROM = 30
"""With at least this many pictures, three sets are made."""
CHOOSE_SHARE, REPORT_SHARE, SET_MIN, CHOOSE_MAX, REPORT_MAX = 0.3, 0.2, 10, 24, 64
FOLDS = 3
CALIBRATE_LEAST, HALVES = 25, 2
"""With fewer pictures that neither choose nor report, those that choose are judged in halves."""


@dataclass(frozen=True)
class Split:
    """Assigns each picture to a part. Statistics are kept by part, so that any part can be left out.

    Args:
        part_of: the part of each picture, in the order of the pictures.
        parts: number of parts.
        choose: parts that judge candidates, each with a model calibrated on `calibrating(part)`.
        report: the part for the report; None if the parts that choose are used.
        is_own_set: the user named the pictures for the report.
    """

    part_of: tuple[int, ...]
    parts: int
    choose: tuple[int, ...]
    report: int | None
    is_own_set: bool = False

    def calibrating(self, part: int) -> tuple[int, ...]:
        """Returns the parts whose statistics calibrate a model that is judged on `part`."""
        return tuple(p for p in self.final if p != part) or (part,)

    @property
    def final(self) -> tuple[int, ...]:
        """Returns the parts that calibrate the delivered file."""
        return tuple(part for part in range(self.parts) if part != self.report)

    def size(self, *parts: int) -> int:
        return sum(part in parts for part in self.part_of)

    def places(self, part: int | None) -> tuple[int, ...]:
        """Returns the indexes of a part's pictures."""
        return tuple(place for place, own in enumerate(self.part_of) if own == part)

    @property
    def judging(self) -> frozenset[int]:
        """Returns the parts whose pictures candidates run."""
        return frozenset(self.choose) | ({self.report} if self.report is not None else frozenset())


def split_of(looks: Looks, own: Iterable[int] = ()) -> Split:
    """Split pictures, always in the same way.

    Args:
        looks: of the pictures, as returned by `looks_of`.
        own: indexes of those that are for the report; at least one other has to remain.
    """
    count, reporting = len(looks), sorted(own)
    left = np.setdiff1d(np.arange(count), reporting)
    part_of = np.zeros(count, dtype=int)
    if left.size >= SPLIT_FROM:
        count_choosing = min(max(SET_MIN, round(CHOOSE_SHARE * left.size)), CHOOSE_MAX)
        report = 0 if reporting else min(max(SET_MIN, round(REPORT_SHARE * left.size)), REPORT_MAX)
        apart = unlike(looks, [int(place) for place in left], count_choosing + report)
        set_aside = apart[: 2 * report : 2]  # alternating, so that both sets are equally diverse
        choosing = [place for place in apart if place not in set_aside]
        judged = 1 if left.size - len(apart) >= CALIBRATE_LEAST else HALVES
        part_of[choosing] = 1 + np.arange(len(choosing)) % judged
        part_of[[*reporting, *set_aside]] = 1 + judged
        choose = tuple(range(1, 1 + judged))
        return Split(tuple(int(p) for p in part_of), 2 + judged, choose, 1 + judged, bool(reporting))
    order = left[np.random.default_rng(SEED).permutation(left.size)]
    folds = max(1, min(FOLDS, left.size))
    part_of[order] = np.arange(left.size) % folds
    part_of[reporting] = folds
    report_part = folds if reporting else None
    parts = folds + bool(reporting)
    return Split(tuple(int(p) for p in part_of), parts, tuple(range(folds)), report_part, bool(reporting))


def within(names: Sequence[str], folder: str) -> tuple[int, ...]:
    """Returns the indexes of the samples in this folder of the archive.

    Args:
        names: of samples, as they were unpacked or below a folder.
        folder: such as "report" or "pictures/report".
    """
    beginning = flatten_path(folder) + "__"
    return tuple(place for place, name in enumerate(names) if flatten_path(name).startswith(beginning))
