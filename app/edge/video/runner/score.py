"""How far the answers of a plan are from those of the golden configuration."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.edge.video.runner.dag_requirements import DagRequirements
from app.edge.video.runner.frame_context import Values
from app.edge.video.runner.resize import Ratio, moved_boxes
from app.video.model.dag import Reference
from app.video.model.kinds import Metric, Type

OVERLAP = 0.5
WORST_DEGREES = 30.0
Boxes = Sequence[Sequence[float]]


def overlap(one: Sequence[float], other: Sequence[float]) -> float:
    """Of two boxes: what they share of what they cover together."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    if width <= 0 or height <= 0:
        return 0.0
    shared = width * height
    return shared / (_area(one) + _area(other) - shared)


def pairs(found: Boxes, golden: Boxes) -> list[tuple[int, int]]:
    """Which belong to each other: the best overlapping first, each once."""
    ranked = sorted(
        ((overlap(one, other), i, j) for i, one in enumerate(found) for j, other in enumerate(golden)), reverse=True
    )
    taken: list[tuple[int, int]] = []
    left, right = set(range(len(found))), set(range(len(golden)))
    for share, i, j in ranked:
        if share < OVERLAP:
            break
        if i in left and j in right:
            taken.append((i, j))
            left.discard(i)
            right.discard(j)
    return taken


def f1(found: Boxes, golden: Boxes) -> float:
    """1.0 where neither has any."""
    if not found and not golden:
        return 1.0
    return 2 * len(pairs(found, golden)) / (len(found) + len(golden))


def mae(found: Sequence[Any], golden: Sequence[Any], matched: Sequence[tuple[int, int]]) -> float | None:
    """Of poses that belong to each other, degrees; None where none do."""
    errors = [np.abs(np.subtract(found[i], golden[j])).mean() for i, j in matched if i < len(found) and j < len(golden)]
    return float(np.mean(errors)) if errors else None


def scored(
    needs: DagRequirements, stage: str, found: Values, golden: Values, to_golden: Ratio
) -> tuple[Metric, float] | None:
    """to_golden: from pixels of what was found to those of the golden. None: this stage is not compared, or there is
    nothing in it that could be."""
    kind = needs.kinds[stage]
    if kind.metric is Metric.NONE or not kind.compared:
        return None
    here = Reference(stage, kind.compared)
    if here not in found or here not in golden:
        return None
    if kind.metric is Metric.IOU:
        return Metric.IOU, f1(moved_boxes(found[here], to_golden), golden[here])
    boxes = _boxes_of(needs, stage)
    if boxes is None or boxes not in found or boxes not in golden:
        return None
    error = mae(found[here], golden[here], pairs(moved_boxes(found[boxes], to_golden), golden[boxes]))
    return None if error is None else (Metric.MAE, error)


def as_quality(metric: Metric, value: float) -> float:
    """0..1, 1 is as good as golden."""
    return value if metric is Metric.IOU else max(0.0, 1 - value / WORST_DEGREES)


def _boxes_of(needs: DagRequirements, stage: str) -> Reference | None:
    """What the stage's poses belong to."""
    kind = needs.kinds[stage]
    inputs = needs.dag.inputs.get(stage, {})
    named = [inputs[name] for name, type_ in kind.inputs.items() if type_ is Type.BOXES and name in inputs]
    own = [Reference(stage, name) for name, type_ in kind.outputs.items() if type_ is Type.BOXES]
    return next(iter([*named, *own]), None)


def _area(box: Sequence[float]) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])
