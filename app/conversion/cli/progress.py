"""Shows the progress of a conversion: bars in a terminal, plain lines everywhere else."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, Task, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress_bar import ProgressBar

from app.conversion.cli.tables import format_reuse
from app.kit.text.json_values import JsonObject

STEPS = ("onnx", "bie", "nef")
UPLOAD = "upload"


class ProgressDisplay(Protocol):
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...
    def sent(self, done_bytes: int, total_bytes: int) -> None: ...
    def show(self, record: JsonObject) -> None: ...


def make_display(console: Console) -> ProgressDisplay:
    return ProgressBars(console) if console.is_terminal else ProgressLines(console)


def stage_text(record: JsonObject, step: str) -> str:
    """What a stage is doing now, in a few words."""
    stage = record["stages"][step]
    state: str = stage["state"]
    if state == "QUEUED" and record["status"] not in ("FAILED", "COMPLETED"):
        ahead = record.get("queue_position")
        return "queued" if not ahead else f"queued, {ahead} ahead"
    if state == "RUNNING":
        text = stage["message"] or "running"
        return f"{text}, far over its usual time" if record.get("is_far_over_usual_time") else text
    if state == "FAILED":
        error = record.get("error") or {}
        return "cancelled" if error.get("code") == "CANCELLED" else "failed"
    return {"WAITING": "", "DONE": format_reuse(stage) or "done", "QUEUED": ""}[state]


class _StillBar(BarColumn):
    """A bar that does not pulse while its stage waits."""

    def render(self, task: Task) -> ProgressBar:
        bar = super().render(task)
        bar.pulse = False
        return bar


class ProgressBars:
    """One bar for the upload and one per stage."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<7}"),
            _StillBar(bar_width=30),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[text]}"),
            console=console,
        )
        self._tasks: dict[str, TaskID] = {
            name: self._progress.add_task(name, total=100, start=False, text="") for name in (UPLOAD, *STEPS)
        }

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def sent(self, done_bytes: int, total_bytes: int) -> None:
        percent = 100 * done_bytes / max(total_bytes, 1)
        text = f"{done_bytes / 1e6:.1f} of {total_bytes / 1e6:.1f} MB"
        self._update(UPLOAD, percent, text, is_running=done_bytes < total_bytes)

    def show(self, record: JsonObject) -> None:
        for step in STEPS:
            stage = record["stages"][step]
            text = escape(stage_text(record, step))
            self._update(step, stage["progress"], text, is_running=stage["state"] == "RUNNING")

    def _update(self, name: str, percent: float, text: str, *, is_running: bool) -> None:
        task = self._tasks[name]
        if is_running or percent >= 100:
            self._progress.start_task(task)
        self._progress.update(task, completed=percent, text=text)
        if not is_running and self._progress.tasks[task].started:
            self._progress.stop_task(task)


class ProgressLines:
    """A line whenever a stage does something new; counting up is not new."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def sent(self, done_bytes: int, total_bytes: int) -> None:
        if done_bytes >= total_bytes:
            self._say(UPLOAD, "done", f"{total_bytes / 1e6:.1f} MB sent")

    def show(self, record: JsonObject) -> None:
        for step in STEPS:
            text = stage_text(record, step)
            if text:
                self._say(step, re.sub(r"[\d.,/ %]+", "#", text), f"{record['stages'][step]['progress']:3d} %  {text}")

    def _say(self, name: str, what: str, text: str) -> None:
        if self._shown.get(name) != what:
            self._shown[name] = what
            self._console.print(f"{name:<7} {text}", markup=False, highlight=False, soft_wrap=True)
