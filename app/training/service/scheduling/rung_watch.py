"""Notices between two ticks that a task of a sweep has come to its next comparison (early stop by ASHA)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from app.training.model.learning_curve import Curve
from app.training.model.sweep import EarlyStop, new_rungs
from app.training.service.curves import CurveReader
from app.training.service.views import TaskView


@dataclass(frozen=True)
class WatchedTask:
    """A running task of a sweep with early stop."""

    view: TaskView
    rule: EarlyStop
    metric: str
    passed: int
    """How many of its comparisons are on record."""


class RungWatch:
    """Used by one thread."""

    def __init__(self, reader: CurveReader) -> None:
        self._reader = reader
        self._tasks: Mapping[str, WatchedTask] = {}

    def watch(self, tasks: Mapping[str, WatchedTask]) -> None:
        """tasks: by id; those of before are let go."""
        self._tasks = tasks

    def has_reached(self) -> bool:
        """Whether one of them has written the metric of its next comparison since the tick."""
        return any(self._is_there(task) for task in self._tasks.values())

    def _is_there(self, task: WatchedTask) -> bool:
        curve = self._reader.metrics(task.view).get(task.metric, Curve())
        return bool(new_rungs(curve, task.rule, task.passed))
