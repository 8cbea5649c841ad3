"""Why a candidate misses a goal, measured on the pictures with the lowest SNR: whether their outputs are small or
their errors large, whether 16 bits for all tensors would help, and which layers cost most there.

Layers are looked for by bisection: parts of the graph are returned to float, and the part that gains most is divided
further. Errors do not add up exactly, so the gains are those of each layer alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import Any

import numpy as np

from app.conversion.toolchains.host.inputs import Array
from app.conversion.toolchains.host.search.basis import Basis
from app.conversion.toolchains.host.search.candidates import Choice
from app.conversion.toolchains.host.search.first_bad import MissedGoal, layer_of, order_of
from app.conversion.toolchains.host.search.judge import Judge, spread
from app.conversion.toolchains.host.search.score import JudgedPicture
from app.inference.runtimes.sessions import open_session, run

PICTURES, USUAL_PICTURES, PIECES, KEPT, LAYERS = 3, 8, 4, 2, 3
GAIN_DB = 0.3
"""A layer that gains less is not named."""
SMALL_DB, SAME_DB = -6.0, 3.0
"""Outputs are small if they are so far below those of the pictures that choose; errors are as usual up to that."""


SIXTEEN_BITS = "sixteen_bits"


@dataclass(frozen=True)
class Shortfall:
    """What is known of the pictures that miss the goal.

    Args:
        pictures: their names, the lowest first.
        snr_db: of the worst output, mean over them.
        signal_db: their output compared with the median of the pictures that choose.
        noise_db: their error compared with the median error of those pictures.
        wide_db: their SNR with all tensors in 16 bits.
        layers: each with the gain in dB if it alone is in float, where 16 bits do not suffice: if it alone is in float
            and all others in 16 bits.
        base_db: their SNR before these are in float: that of the candidate, or of 16 bits for all tensors.
        layers_db: their SNR with all of these in float.
        code: "small_outputs", "sixteen_bits" (not even they suffice) or "layers".
        wide_drop: what the task loses with all tensors in 16 bits, in percent, where that is the goal.
        layers_drop: the same with all of the layers in float; None if it was not measured.
        is_whole: there was time to look for the layers.
    """

    pictures: tuple[str, ...]
    snr_db: float
    signal_db: float
    noise_db: float
    wide_db: float
    layers: tuple[tuple[str, float], ...]
    base_db: float
    layers_db: float
    code: str
    wide_drop: float | None = None
    layers_drop: float | None = None
    is_whole: bool = True


def shortfall(missed: MissedGoal) -> Shortfall | None:
    """Measure why the chosen candidate misses the goal.

    Without time, no layers are looked for; the other models take less than judging a candidate.

    Returns:
        None without a picture with an output.

    Raises:
        StageFailed: A model with more bits cannot be built or run.
    """
    builder, judge, split, choice = missed.builder, missed.judge, missed.split, missed.choice
    goal_db, has_time, drop_most = missed.goal_db, missed.has_time, missed.drop_most
    part = split.choose[0] if split.report is None else split.report
    parts = split.calibrating(part)
    seen = _Runs(judge, [picture for picture in judge.pictures if picture.part == part])
    usual = _Runs(judge, spread([one for one in judge.pictures if one.part in split.choose], USUAL_PICTURES))
    taken = builder.built(choice, parts)
    levels = sorted(seen.levels(taken), key=lambda level: level.snr_db)[:PICTURES]
    others = usual.levels(taken)
    if not levels or not others:
        return None
    basis = builder.basis(choice, parts)
    wide = _widen_all(basis, choice)
    low = _Runs(judge, [level.picture for level in levels])
    wide_model = builder.built(wide, parts)
    wide_db = low.mean_db(wide_model)
    wide_drop = None if drop_most is None else judge.judge(lambda _: wide_model, [part]).score.drop_percent
    is_enough = wide_db >= goal_db if drop_most is None else wide_drop is not None and wide_drop <= drop_most
    base, base_db = (choice, fmean(level.snr_db for level in levels)) if is_enough else (wide, wide_db)

    def gain_db(tensors: Iterable[str]) -> float | None:
        if not has_time():
            return None
        return low.mean_db(builder.built(base, parts, frozenset(tensors))) - base_db

    given = {node.name for node in builder.given.model.graph.node}
    tensors = [tensor for tensor in order_of(basis) if not is_enough or tensor not in choice.wide_tensors]
    tensors = [tensor for tensor in tensors if layer_of(basis, tensor) in given]
    known = _find_layers(basis, tensors, gain_db)
    layers = known or ()
    own = [tensor for tensor in tensors if layer_of(basis, tensor) in dict(layers)]
    together = gain_db(own) if layers else 0.0
    layers_drop = None
    if layers and drop_most is not None and has_time():
        layers_drop = judge.judge(builder.of_part(base, frozenset(own)), [part]).score.drop_percent
    signal_db = fmean(level.signal_db for level in levels) - median(level.signal_db for level in others)
    noise_db = fmean(level.noise_db for level in levels) - median(level.noise_db for level in others)
    is_small = signal_db <= SMALL_DB and noise_db <= SAME_DB
    return Shortfall(
        tuple(level.picture.name for level in levels),
        fmean(level.snr_db for level in levels),
        signal_db,
        noise_db,
        wide_db,
        layers,
        base_db,
        base_db + (together or 0.0),
        SIXTEEN_BITS if not is_enough else "small_outputs" if is_small else "layers",
        wide_drop,
        layers_drop,
        known is not None,
    )


@dataclass(frozen=True)
class _Level:
    """Of the worst output for a picture."""

    picture: JudgedPicture
    signal_db: float
    noise_db: float

    @property
    def snr_db(self) -> float:
        return self.signal_db - self.noise_db


class _Runs:
    """Runs models on a few pictures."""

    def __init__(self, judge: Judge, pictures: Sequence[JudgedPicture]) -> None:
        self._pictures = [(picture, judge.tensors(picture)) for picture in pictures]
        self._floors_db = {name: 10.0 * float(np.log10(power)) for name, power in judge.silent_powers.items()}

    def levels(self, model: Any) -> list[_Level]:
        """Without pictures whose outputs are all zero on every picture; errors in one that is nearly silent are held
        against the power below which it is so."""
        session = open_session(model.SerializeToString(), 1)
        rows = []
        for picture, tensors in self._pictures:
            actual = run(session, picture.arrays, list(tensors.values()))
            known = [
                _Level(
                    picture,
                    max(_to_db(picture.expected[tensor]), self._floors_db.get(name, -np.inf)),
                    _to_db(picture.expected[tensor] - actual[tensor]),
                )
                for name, tensor in tensors.items()
                if picture.expected[tensor].any() or name in self._floors_db
            ]
            rows += [min(known, key=lambda level: level.snr_db)] if known else []
        return rows

    def mean_db(self, model: Any) -> float:
        return fmean(level.snr_db for level in self.levels(model))


def _find_layers(
    basis: Basis, tensors: Sequence[str], gain_db: Callable[[Iterable[str]], float | None]
) -> tuple[tuple[str, float], ...] | None:
    """Returns the layers that gain most, by bisection of the tensors in graph order; None without time."""
    groups = [list(tensors)] if tensors else []
    while groups and max(map(len, groups)) > 1:
        pieces = [piece for group in groups for piece in _divide(group)]
        gains = [(gain, piece) for piece in pieces if (gain := gain_db(piece)) is not None]
        if len(gains) < len(pieces):
            return None
        gains.sort(key=lambda pair: -pair[0])
        groups = [piece for _, piece in gains[: LAYERS if len(gains[0][1]) == 1 else KEPT]]
    rows: dict[str, float] = {}
    for (tensor,) in groups:
        gain = gain_db([tensor])
        if gain is not None and gain >= GAIN_DB:
            layer = layer_of(basis, tensor)
            rows[layer] = max(gain, rows.get(layer, 0.0))
    return tuple(sorted(rows.items(), key=lambda pair: -pair[1]))


def _divide(group: list[str]) -> list[list[str]]:
    """Returns the group in pieces of about the same size."""
    count = min(PIECES, len(group))
    bounds = [round(len(group) * place / count) for place in range(count + 1)]
    return [group[begin:end] for begin, end in itertools.pairwise(bounds)]


def _widen_all(basis: Basis, choice: Choice) -> Choice:
    template = basis.template
    activations = frozenset(one.name for one in template.activations)
    weights = frozenset(one.name for one in template.weights)
    return replace(choice, wide=activations, wide_weights=weights, exact=frozenset())


def _to_db(values: Array) -> float:
    with np.errstate(over="ignore", invalid="ignore"):
        energy = float(np.mean(np.square(values, dtype=np.float64))) if values.size else 0.0
    return 10.0 * float(np.log10(max(energy, 1e-30))) if np.isfinite(energy) else 300.0
