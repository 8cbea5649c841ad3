"""Quality over upload as a plot: all settings, the best ones joined, and what edge, cloud and chance give. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from app.joint_inference.calibration.sweep import Setting, Sweep
from app.kit.web.line_plot import Dot, Line, Plot, axes, path_of, ticks

STEPS = 20
"""Of the line of chance, which is not quite straight for F1."""
KINDS = {"IBT": "ibt", "Threshold": "threshold", "CrossEntropy": "entropy"}


def quality_plot(sweep: Sweep, front: Sequence[Setting], best: Setting | None, budget: float) -> Plot:
    """Quality over the share of uploads.

    Args:
        front: settings that no other beats, by their share of uploads.
        best: what is recommended; None: nothing is.
        budget: share of samples that may be uploaded, 0..1.
    """
    values = [setting.quality for setting in sweep.settings] + [sweep.edge_only, sweep.cloud_only]
    low, high = _bounds(min(values), max(values))
    x, y = axes((0.0, 1.0), (low, high))
    chance = [(step / STEPS, sweep.random(step / STEPS)) for step in range(STEPS + 1)]
    lines = [
        Line("edge-only", path_of([(0, sweep.edge_only), (1, sweep.edge_only)], x, y)),
        Line("cloud-only", path_of([(0, sweep.cloud_only), (1, sweep.cloud_only)], x, y)),
        Line("chance", path_of(chance, x, y)),
        Line("front", path_of(_steps([(s.upload, s.quality) for s in front]), x, y)),
        Line("budget", f"M{x(budget)} {y.start} L{x(budget)} {y.stop}"),
    ]
    unique = {(x(s.upload), y(s.quality), s.algorithm): s for s in sweep.settings}
    dots = [Dot(left, top, kind_of(name), label_of(setting)) for (left, top, name), setting in unique.items()]
    if best is not None:
        dots.append(Dot(x(best.upload), y(best.quality), "best", label_of(best)))
    return Plot(ticks(x, 100, "%"), ticks(y, 100, "%"), tuple(lines), tuple(dots))


def kind_of(algorithm: str) -> str:
    return KINDS.get(algorithm, "other")


def label_of(setting: Setting) -> str:
    parameters = ", ".join(f"{key} {value}" for key, value in setting.parameters.items())
    name = f"{setting.algorithm} ({parameters})" if parameters else setting.algorithm
    return f"{name}: {setting.quality:.1%} / {setting.upload:.1%}"


def _bounds(low: float, high: float) -> tuple[float, float]:
    """Whole steps of 5 % around the values, 10 % apart at least."""
    floor, ceiling = math.floor(low * 20 - 0.2) / 20, min(1.0, math.ceil(high * 20 + 0.2) / 20)
    return max(0.0, min(floor, ceiling - 0.1)), ceiling


def _steps(points: Sequence[tuple[float, float]]) -> list[tuple[float, float | None]]:
    """What a budget buys: level until the next better setting."""
    steps: list[tuple[float, float | None]] = []
    for place, (at, value) in enumerate(points):
        if place:
            steps.append((at, points[place - 1][1]))
        steps.append((at, value))
    if points:
        steps.append((1.0, points[-1][1]))
    return steps
