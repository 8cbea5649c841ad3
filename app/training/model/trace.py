"""Traces of clusters: the tasks that a simulation replays, read from CSV. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from app.kit.errors import BadInput
from app.kit.text.untrusted_csv import UnreadableCsv, read_records
from app.training.model.task import Priority

NAMES = {
    "user": ("user", "vc", "user_id"),
    "submit_s": ("submit_s", "submit_time_s", "submitted_s"),
    "gpus": ("gpus", "gpu_num", "num_gpus"),
    "cpus": ("cpus", "cpu_num", "num_cpus"),
    "duration_s": ("duration_s", "duration", "run_time"),
    "limit_s": ("limit_s", "time_limit", "timelimit"),
    "priority": ("priority",),
}
"""What a column may be called, in the traces of Philly and Helios among others."""

NEEDED = ("user", "submit_s", "gpus", "duration_s")


@dataclass(frozen=True)
class TraceTask:
    name: str
    user: str
    submit_s: float
    gpus: int
    duration_s: float
    limit_s: int | None = None
    priority: Priority = Priority.NORMAL
    cpus: float = 0
    """In all; spread evenly over its nodes."""


def read_trace(text: str) -> list[TraceTask]:
    """Reads the tasks, by time of submission.

    Raises:
        BadInput: A line is not a task; the error names it.
    """
    try:
        present, rows = read_records(text)
        return _read(present, rows)
    except UnreadableCsv as error:
        raise BadInput(f"The trace cannot be read: {error}.") from None


def _read(present: Sequence[str], rows: Iterable[tuple[int, Mapping[str, str]]]) -> list[TraceTask]:
    columns = {field: next((name for name in names if name in present), None) for field, names in NAMES.items()}
    missing = [field for field in NEEDED if columns[field] is None]
    if missing:
        raise BadInput(
            f"The trace has no column {missing[0]}.",
            hint=f"Needed: {', '.join(NEEDED)}; further: cpus, limit_s, priority.",
        )
    tasks = []
    for number, row in rows:
        values = {field: row[name] for field, name in columns.items() if name}
        try:
            tasks.append(_read_task(f"line {number}", values))
        except (ValueError, OverflowError):
            raise BadInput(f"Line {number} of the trace cannot be read.", hint="Times and GPUs are numbers.") from None
    return sorted(tasks, key=lambda task: task.submit_s)


def _read_task(name: str, values: dict[str, str]) -> TraceTask:
    submit_s, duration_s = float(values["submit_s"]), float(values["duration_s"])
    gpus, cpus = int(float(values["gpus"])), float(values.get("cpus") or 0)
    if not (0 <= submit_s < 1e10 and 0 <= duration_s < 1e10 and gpus >= 0 and 0 <= cpus < 1e6):
        raise ValueError(name)
    limit_s = values.get("limit_s", "")
    priority = Priority(values["priority"]) if values.get("priority") else Priority.NORMAL
    return TraceTask(
        name, values["user"], submit_s, gpus, duration_s, int(float(limit_s)) if limit_s else None, priority, cpus
    )
