"""A task once more: with other values of its fields, or from one of its checkpoints on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import JsonValue

from app.homes.errors import make_refusal
from app.training.service.checkpoints import RESUME, ranking_of
from app.training.service.curves import CurveReader
from app.training.service.tasks import Tasks
from app.training.spec import TaskSpec, read_spec
from app.training.spec.changes import apply_changes

Resume = int | Literal["last", "best"]
"""A checkpoint of a task: by its step, or which one it is."""


class Resubmission:
    """Creates the text of a new task from an existing one. Everything belongs to the user."""

    def __init__(self, tasks: Tasks, curves: CurveReader) -> None:
        self._tasks = tasks
        self._curves = curves

    def spec(self, user: str, task_id: str) -> TaskSpec:
        """The spec of a task.

        Raises:
            TaskNotFound: This user has no such task.
            BadSpec: This version can no longer read it.
        """
        return read_spec(self._tasks.get(user, task_id).task.spec_text.encode())[0]

    def text(self, user: str, task_id: str, changes: Mapping[str, JsonValue], resume: Resume | None = None) -> str:
        """Returns the text of the new task.

        Args:
            changes: by field: overrides.trainer.seed; None removes it.
            resume: the checkpoint from which it continues; None: the spec decides.

        Raises:
            TaskNotFound, BadSpec: As of `spec`.
            PathRefused: The checkpoint does not exist.
        """
        begin = {} if resume is None else {RESUME: self.checkpoint(user, task_id, resume)}
        return apply_changes(self.spec(user, task_id), {**changes, **begin})

    def checkpoint(self, user: str, task_id: str, resume: Resume) -> str:
        """The path of a checkpoint, as tasks name it.

        Raises:
            TaskNotFound: This user has no such task.
            PathRefused: There is no such checkpoint.
        """
        checkpoints = {one.step: one.path for one in self._tasks.checkpoints(user, task_id)}
        step: int | None = max(checkpoints, default=None) if resume == "last" else None
        if resume == "best":
            view = self._tasks.get(user, task_id)
            order = ranking_of(view.task, checkpoints, self._curves.read(view).curves).order
            step = order[0] if order else None
        path = checkpoints.get(resume if isinstance(resume, int) else step if step is not None else -1)
        if path is None:
            which = f"of step {resume}" if isinstance(resume, int) else f"that is the {resume}"
            raise make_refusal(
                RESUME, f"task {task_id} has no checkpoint {which}", hint="The page of a task lists its checkpoints."
            )
        return path
