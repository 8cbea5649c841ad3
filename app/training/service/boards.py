"""TensorBoard over the event files of a task, for the user who owns it."""

from __future__ import annotations

from dataclasses import dataclass

from app.training.errors import BoardMissing
from app.training.service.folders import has_events, open_folder
from app.training.service.tasks import Tasks
from app.training.service.views import TaskView
from app.training.tensorboard.processes import Board, TensorBoards


@dataclass(frozen=True)
class TaskBoards:
    tasks: Tasks
    """With the homes in which event files are."""
    processes: TensorBoards
    """Of this web server."""

    def folder(self, view: TaskView) -> str | None:
        """Where the event files are, as users name it: in the folder that its attempts share, else in that of the last
        one. None: there are none."""
        last = view.folders.get(view.task.latest_attempt_no)
        paths = [folder.path for folder in (view.checkpoints, last) if folder is not None and folder.path]
        return next((path for path in paths if has_events(self.tasks.homes, view.task.user, path)), None)

    def opened(self, user: str, task_id: str, prefix: str) -> Board:
        """The running TensorBoard of a task, started if there is none.

        Args:
            user: Who looks.
            task_id: Of the task.
            prefix: The path at which browsers reach it.

        Raises:
            TaskNotFound: It is not this user's, either.
            BoardMissing: The task has no event files.
            BoardUnavailable: TensorBoard is not installed, not offered, or does not start.
            BoardsTooMany: As many as may run are in use.
        """
        view = self.tasks.get(user, task_id)
        self.processes.require_offered()
        path = self.folder(view)
        if path is None:
            raise BoardMissing(
                "This task has no event files of TensorBoard.",
                hint="verl writes them if MODELMILL_TRAINING_TRACKERS names tensorboard, a program if it uses its "
                "SummaryWriter. The page Metrics needs none.",
            )
        with open_folder(self.tasks.homes, user, path) as folder:
            return self.processes.ensure(task_id, folder, prefix)
