"""A checkpoint as a model of its own: a task of the bundled program that has verl put its parts together."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from app.homes.errors import FileMissing, HomeDenied
from app.homes.home_paths import home_path_of
from app.homes.model import COMMON, Kind
from app.kit.files import data_folder
from app.training.model import Task
from app.training.service.demonstration import put_program
from app.training.service.resubmission import Resubmission, Resume
from app.training.service.tasks import Tasks
from app.training.spec import TaskSpec
from app.training.spec.document import write_fields

FOLDER = "ops/samples/export"
PROGRAM, WRITER = "export.py", "write_onnx.py"
CPUS = 2


class Exports:
    """Everything is the user's own."""

    def __init__(self, tasks: Tasks, resubmission: Resubmission) -> None:
        self._tasks = tasks
        self._resubmission = resubmission

    def export(
        self, user: str, task_id: str, which: Resume, *, to_onnx: bool, now: datetime, is_admin: bool = False
    ) -> Task:
        """Put a task at the end of the line that makes a model of a checkpoint, in the environment of its task.

        Args:
            which: The checkpoint: last, best, or of a step.
            to_onnx: An ONNX as well.
            is_admin: As of Tasks.submit.

        Raises:
            TaskNotFound, BadSpec, TrainingOff, TooManyTasks: As of Tasks.submit.
            PathRefused: There is no such checkpoint.
            ProgramNotStored: The nodes could not find the program.
        """
        spec = self._resubmission.spec(user, task_id)
        path = self._resubmission.checkpoint(user, task_id, which)
        homes = self._tasks.homes.options
        if self._tasks.options.is_on:
            for program in (WRITER, PROGRAM):
                put_program(homes.root, data_folder(FOLDER), program)
        fields: Mapping[str, Any] = {
            "workload": "script",
            "name": f"{spec.name or task_id} · {path.rpartition('/')[2].removeprefix('global_')}"[-200:],
            "code_path": f"{homes.prefix}/{COMMON}/code/{data_folder(FOLDER).name}",
            "program": PROGRAM,
            "cpus": CPUS,
            "resume_from": path,
            **({"args": ["--onnx"], **self._collect_samples(user, spec)} if to_onnx else {}),
            **({"environment": spec.environment} if spec.environment else {}),
            **({"cluster": spec.cluster} if spec.cluster else {}),
        }
        return self._tasks.submit(user, write_fields(fields).encode(), now=now, is_admin=is_admin)[0]

    def _collect_samples(self, user: str, spec: TaskSpec) -> dict[str, str]:
        """The training data, of which some rows become samples for calibration, while it is still there."""
        homes = self._tasks.homes
        with suppress(FileMissing, HomeDenied):
            location = home_path_of(homes.options, user, spec.train_file or "")
            if homes.files.tree(user, location).info(location.inner).kind is Kind.FILE:
                return {"train_file": location.logical(homes.options, user)}
        return {}
