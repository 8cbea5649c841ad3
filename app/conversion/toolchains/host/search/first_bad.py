"""The layer at which a quantized model first misses its goal, of SNR or of the task, if all layers before it are in
8 bits and the rest is in float.

It is found by bisection over the tensors in graph order, and reported with the pictures that suffer most and the
channels that widen its range.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from app.conversion.toolchains.first_bad_layer import FirstBadLayer
from app.conversion.toolchains.host.search.basis import Basis
from app.conversion.toolchains.host.search.candidate_builder import CandidateBuilder
from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.judge import Judge
from app.conversion.toolchains.host.search.score import Score
from app.conversion.toolchains.host.search.split import Split

PICTURES, CHANNELS = 3, 3
EXACT_DB = 120.0
WIDE_TIMES = 4.0
"""A channel widens the range of all if it reaches this many times as far as the median channel."""


@dataclass(frozen=True)
class MissedGoal:
    """A goal that a candidate misses, with what it takes to find out why.

    Args:
        builder: makes the models.
        judge: judges them, and has the pictures.
        split: of the pictures.
        choice: the candidate.
        goal_db: SNR to reach at the worst output.
        has_time: called before each model that may be left out.
        drop_most: what the task may lose at most, in percent; None if SNR is the goal.
    """

    builder: CandidateBuilder
    judge: Judge
    split: Split
    choice: Choice
    goal_db: float
    has_time: Callable[[], bool]
    drop_most: float | None = None


def first_bad(missed: MissedGoal) -> FirstBadLayer | None:
    """Searches on the first part that chooses: for SNR on a few of its pictures.

    Args:
        missed: by a choice in 8 bits throughout.

    Returns:
        None if the goal is reached with all tensors in 8 bits, if the task shows nothing on these pictures, or if there
        is no time to find out.
    """
    builder, split, choice, drop_most = missed.builder, missed.split, missed.choice, missed.drop_most
    part = split.choose[0]
    basis = builder.basis(choice, split.calibrating(part))
    names = order_of(basis)
    activations = {one.name for one in basis.template.activations}

    def judged(count: int) -> Score:
        build = builder.of_part(replace(choice, exact=frozenset(names[count:])))
        return missed.judge.judge(build, [part], is_given_up=(lambda _: True) if drop_most is None else None).score

    def is_enough(score: Score) -> bool:
        if drop_most is None:
            return score.mean_db >= missed.goal_db
        return score.drop_percent is None or score.drop_percent <= drop_most

    low, high, before, last = 0, len(names), None, judged(len(names))
    if is_enough(last):
        return None
    while high - low > 1:
        if not missed.has_time():
            return None
        middle = (low + high) // 2
        score = judged(middle)
        if is_enough(score):
            low, before = middle, score
        else:
            high, last = middle, score
    tensor = names[high - 1]
    pictures = sorted(zip(last.values, last.names.get(last.worst_output, ()), strict=True))
    worst = tuple(name for _, name in pictures[:PICTURES])
    before_db, before_drop = (EXACT_DB, 0.0) if before is None else (min(before.mean_db, EXACT_DB), before.drop_percent)
    channels = _find_wide_channels(basis, tensor, split.calibrating(part)) if tensor in activations else ()
    drops = (None, None) if drop_most is None else (before_drop, last.drop_percent)
    layer = layer_of(basis, tensor)
    return FirstBadLayer(tensor, layer, before_db, last.mean_db, low, len(names), worst, channels, *drops)


def order_of(basis: Basis) -> list[str]:
    """Returns all activations and weights in the order of the nodes that produce them; weights come right before the
    node that reads them."""
    nodes = basis.template.float_model.graph.node
    makers = {name: place for place, node in enumerate(nodes) for name in node.output}
    readers = {node.name: place for place, node in enumerate(nodes)}
    places = {one.name: (makers.get(one.name, -1), True) for one in basis.template.activations}
    places |= {one.name: (readers.get(one.layer, -1), False) for one in basis.template.weights}
    return sorted(places, key=places.__getitem__)


def layer_of(basis: Basis, tensor: str) -> str:
    """Returns the name of the node that reads a weight, or that produces an activation."""
    by_weight = {one.name: one.layer for one in basis.template.weights}
    makers = {name: node.name for node in basis.template.float_model.graph.node for name in node.output}
    return by_weight.get(tensor) or makers.get(tensor) or tensor


def _find_wide_channels(basis: Basis, tensor: str, parts: tuple[int, ...]) -> tuple[tuple[int, float], ...]:
    limits = basis.limits(tensor, parts)
    if limits is None or limits.ndim != 1 or limits.size <= CHANNELS:
        return ()
    usual = float(np.median(limits))
    order = [int(place) for place in np.argsort(-limits)[:CHANNELS]]
    if usual <= 0.0:
        return ()
    times = [(place, round(float(limits[place]) / usual, 1)) for place in order]
    return tuple(pair for pair in times if pair[1] >= WIDE_TIMES)
