"""The checkpoints that verl leaves in the folder of a task, and the one from which another task continues."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from app.homes.errors import make_refusal
from app.homes.service import Homes
from app.homes.tree_walk import FOLDER, walk
from app.kit.errors import ModelmillError
from app.kit.sql import Database
from app.training import store
from app.training.model import Task
from app.training.model.checkpoint_order import CheckpointRanking, rank
from app.training.model.learning_curve import Curve
from app.training.service.folders import checkpoints_of, open_file, open_folder
from app.training.spec import TaskSpec, read_spec
from app.training.workloads import CHECKPOINTS

RESUME, BEST_METRIC = "resume_from", "best_metric"
MOST_CHECKPOINTS = 1000
MOST_FOLDERS = 2000
"""Per checkpoint, when its size is summed."""
LATEST_FILE = "latest_checkpointed_iteration.txt"
"""Where verl records the step of the last complete checkpoint."""
_STEP = re.compile(r"global_step_([0-9]{1,12})")


@dataclass(frozen=True)
class Checkpoint:
    step: int
    path: str
    """Its path, as in tasks."""
    size_bytes: int
    written_at: datetime


def checkpoints_in(homes: Homes, user: str, path: str) -> list[Checkpoint]:
    """The checkpoints in a folder, by step. path: of the folder, as in tasks. If it does not exist: an empty list."""
    with suppress(ModelmillError), open_folder(homes, user, path) as fd:
        return sorted(_iterate_checkpoints(fd, path), key=lambda one: one.step)
    return []


def steps_in(homes: Homes, user: str, path: str) -> list[int]:
    """The steps of those in a folder, in order; cheap enough for frequent use. path: as of `checkpoints_in`."""
    with suppress(ModelmillError), open_folder(homes, user, path) as fd:
        return sorted(_list_steps(fd).values())
    return []


def complete_step(homes: Homes, user: str, path: str) -> int | None:
    """The step of the last complete checkpoint in a folder; None: verl has recorded none. path: as in tasks."""
    with suppress(ModelmillError, ValueError), open_file(homes, user, f"{path}/{LATEST_FILE}") as fd:
        return int(os.pread(fd, 20, 0))
    return None


def _list_steps(fd: int) -> dict[str, int]:
    """By name."""
    with os.scandir(fd) as entries:
        steps = {entry.name: int(match[1]) for entry in entries if (match := _STEP.fullmatch(entry.name))}
    return dict(islice(steps.items(), MOST_CHECKPOINTS))


def _iterate_checkpoints(fd: int, path: str) -> Iterator[Checkpoint]:
    for name, step in _list_steps(fd).items():
        with suppress(OSError):  # just removed, because verl keeps only the last ones
            folder_fd = os.open(name, FOLDER, dir_fd=fd)
            try:
                written_at = datetime.fromtimestamp(os.fstat(folder_fd).st_mtime, UTC)
                yield Checkpoint(step, f"{path}/{name}", _measure_size(folder_fd), written_at)
            finally:
                os.close(folder_fd)


def _measure_size(folder_fd: int) -> int:
    return sum(
        entry.stat(follow_symlinks=False).st_size
        for visit in islice(walk(folder_fd), MOST_FOLDERS)
        for entry in visit.entries
        if entry.is_file(follow_symlinks=False)
    )


def checkpoint_folder(homes: Homes, task: Task) -> str | None:
    """The path of a task's checkpoints, as in tasks; None: it has no folder (any more)."""
    folder = checkpoints_of(homes, task)
    return f"{folder.path}/{CHECKPOINTS}" if folder and folder.path else None


def checkpoints_of_task(homes: Homes, task: Task) -> list[Checkpoint]:
    path = checkpoint_folder(homes, task)
    return checkpoints_in(homes, task.user, path) if path else []


def ranking_of(task: Task, steps: Collection[int], curves: Mapping[str, Curve]) -> CheckpointRanking:
    """The checkpoints of a task by its metric, or the default one. steps: of the checkpoints."""
    metric = None
    if BEST_METRIC in task.spec_text:
        with suppress(ModelmillError):  # from an older version of this product
            metric = read_spec(task.spec_text.encode())[0].best_metric
    return rank(steps, curves, metric)


def resume_path(database: Database, homes: Homes, user: str, spec: TaskSpec) -> str | None:
    """Returns where a new task starts.

    Args:
        user: whose task it is.

    Returns:
        The path of its checkpoint, as in tasks; None: it starts at step 0.

    Raises:
        PathRefused: The checkpoint does not exist, or is not the user's.
    """
    if spec.resume_from is None:
        return None
    path = (
        spec.resume_from if spec.resume_from.startswith("/") else _find_latest(database, homes, user, spec.resume_from)
    )
    if not _STEP.fullmatch(path.rpartition("/")[2]):
        raise make_refusal(
            RESUME, "it must be a folder like global_step_50", hint="The page of a task lists its checkpoints."
        )
    homes.rules.check(user, RESUME, path)
    return path


def _find_latest(database: Database, homes: Homes, user: str, task_id: str) -> str:
    """Of a task."""
    with database.read() as conn:
        task = store.get_task(conn, task_id)
    if task is None or task.user != user:
        raise make_refusal(RESUME, f"there is no task {task_id}", hint="The list of tasks shows the existing ones.")
    checkpoints = checkpoints_of_task(homes, task)
    if not checkpoints:
        raise make_refusal(
            RESUME, f"task {task_id} has left no checkpoint", hint="It may have gone to the trash: see its page."
        )
    return checkpoints[-1].path
