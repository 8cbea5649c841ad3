"""Which checkpoint of a task is the best, and which ones it needs no more if it keeps the last and the best. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.training.model.learning_curve import Curve, is_lower_better

JUDGES = ("val-core/", "val/", "val_", "eval/", "test/", "val-aux/", "critic/rewards", "critic/score", "reward")
"""What tells how good a checkpoint is, the better first: names, or beginnings of names. After these: anything that a
name tells the direction of."""


@dataclass(frozen=True)
class CheckpointRanking:
    """The checkpoints of a task by a figure that it told at their steps."""

    metric: str = ""
    """Which figure; "": there is none to judge by."""
    values: Mapping[int, float] = field(default_factory=dict)
    """By step, where it was told."""
    order: Sequence[int] = ()
    """The steps with a value, the best first; of equals the later."""

    @property
    def best(self) -> int | None:
        """The step of the best one, where there are several to compare."""
        return self.order[0] if len(self.order) > 1 else None


def rank(steps: Collection[int], curves: Mapping[str, Curve], metric: str | None = None) -> CheckpointRanking:
    """Order checkpoints by a figure.

    Args:
        steps: of the checkpoints.
        curves: what the task told, by name.
        metric: the name of the figure; None: what is usual of those there are.
    """
    name = metric or usual_metric(curves)
    is_lower = is_lower_better(name) if name else None
    if not name or is_lower is None or name not in curves:
        return CheckpointRanking(name or "")
    curve = curves[name]
    by_step = dict(zip(curve.steps, curve.values, strict=True))
    values = {step: by_step[step] for step in sorted(steps) if step in by_step}
    sign = 1 if is_lower else -1
    return CheckpointRanking(name, values, sorted(values, key=lambda step: (sign * values[step], -step)))


def usual_metric(names: Iterable[str]) -> str | None:
    """What a checkpoint is judged by: validation before rewards, these before the loss. None: no metric says."""
    directed = [name for name in names if is_lower_better(name) is not None]
    return min(directed, key=lambda name: (_place(name), name), default=None)


def _place(name: str) -> int:
    return next((place for place, judge in enumerate(JUDGES) if name.startswith(judge)), len(JUDGES))


def superfluous(
    steps: Collection[int], ranking: CheckpointRanking, *, last: int, best: int, complete: int
) -> list[int]:
    """The checkpoints that are neither among the last nor among the best.

    None while nothing is known of any: who is not judged is not worse.

    Args:
        steps: of all checkpoints.
        last: how many of the last stay, counted from the one that is complete.
        best: how many of the best stay.
        complete: the step of the last one that is whole; those after it are being written.
    """
    if not ranking.order:
        return []
    whole = sorted(step for step in steps if step <= complete)
    kept = {*whole[-last:], *ranking.order[:best]}
    return [step for step in whole if step not in kept]
