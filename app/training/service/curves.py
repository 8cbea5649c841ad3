"""The learning curves of a task, read from the files of its attempts. Each file is read from where the last read ended:
running tasks are read every few seconds."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from app.homes.service import Homes
from app.kit.errors import ModelmillError
from app.kit.text.json_values import is_number
from app.kit.text.untrusted_json import UnreadableJson, read_object
from app.training.model.learning_curve import METRICS_FILE, NODES_FILE, Curve, LearningCurves, join_curves
from app.training.service.folders import open_file
from app.training.service.views import AttemptFolder, TaskView

SUMMARY_FILE = "metrics.json"
"""Figures of the whole training, a map of names to numbers, as a program may leave them at its end."""
MOST_BYTES = 128 << 20
"""Of one attempt's file; what comes after it is not shown."""
MOST_SUMMARY_BYTES = 64 << 10
BLOCK_BYTES = 1 << 20
KEPT_BYTES = 96 << 20
"""Of all files together, as they are held in memory; what is dropped is read again from its start. 1,000 files of 4,000
points each, or one of the longest."""


@dataclass(frozen=True)
class TaskCurves:
    curves: Mapping[str, Curve]
    """By name, over all attempts."""
    row_count: int
    unreadable_count: int
    """Lines that are no row."""
    is_cut: bool
    """A file is longer than what is read of it."""
    summary: Mapping[str, float] = field(default_factory=dict)
    """What the program left of figures at its end."""
    node_row_count: int = 0
    """Rows about its nodes, whose curves are among the others."""

    @property
    def version(self) -> tuple[int, ...]:
        """Equal while nothing new was told."""
        return self.row_count, self.unreadable_count, len(self.summary), self.node_row_count


@dataclass
class _ReadFile:
    """How far a file was read."""

    curves: LearningCurves = field(default_factory=LearningCurves)
    offset: int = 0
    is_cut: bool = False
    lock: Lock = field(default_factory=Lock)
    """Two readers do not feed it the same bytes."""


class CurveReader:
    """Reads curves from the files that tasks write, each only as far as it has grown. For any thread."""

    def __init__(self, homes: Homes, most_bytes: int = MOST_BYTES, kept_bytes: int = KEPT_BYTES) -> None:
        self._homes = homes
        self._most_bytes = most_bytes
        self._kept_bytes = kept_bytes
        self._files: OrderedDict[tuple[str, int, int], _ReadFile] = OrderedDict()
        self._lock = Lock()

    def read(self, view: TaskView) -> TaskCurves:
        """What a task has told so far; nothing of an attempt whose folder or file is gone."""
        read, of_nodes = self._read_files(view, METRICS_FILE), self._read_files(view, NODES_FILE)
        return TaskCurves(
            {**join_curves(file.curves for file in read), **join_curves(file.curves for file in of_nodes)},
            sum(file.curves.row_count for file in read),
            sum(file.curves.unreadable_count for file in read),
            any(file.is_cut for file in read),
            self._summarize(view),
            sum(file.curves.row_count for file in of_nodes),
        )

    def metrics(self, view: TaskView) -> Mapping[str, Curve]:
        """Only what its program reports, by name."""
        return join_curves(file.curves for file in self._read_files(view, METRICS_FILE))

    def _read_files(self, view: TaskView, name: str) -> list[_ReadFile]:
        files = [self._read_file(view.task.user, f"{folder.path}/{name}") for folder in _list_folders(view)]
        return [file for file in files if file is not None]

    def _read_file(self, user: str, path: str) -> _ReadFile | None:
        try:
            with open_file(self._homes, user, path) as fd:
                status = os.fstat(fd)
                file = self._get_file((path, status.st_dev, status.st_ino), status.st_size)
                with file.lock:
                    self._read_on(fd, file)
            self._drop()
            return file
        except ModelmillError:
            return None

    def _get_file(self, key: tuple[str, int, int], size_bytes: int) -> _ReadFile:
        """What was read of it before, unless it became shorter: then it was written again."""
        with self._lock:
            file = self._files.get(key)
            if file is None or file.offset > size_bytes:
                file = self._files[key] = _ReadFile()
            self._files.move_to_end(key)
            return file

    def _drop(self) -> None:
        """What was not read for the longest time, until the others fit."""
        with self._lock:
            held_bytes = sum(file.curves.size_bytes for file in self._files.values())
            while held_bytes > self._kept_bytes and len(self._files) > 1:
                _, file = self._files.popitem(last=False)
                held_bytes -= file.curves.size_bytes

    def _read_on(self, fd: int, file: _ReadFile) -> None:
        while data := os.pread(fd, min(BLOCK_BYTES, self._most_bytes - file.offset), file.offset):
            file.curves.feed(data)
            file.offset += len(data)
        file.is_cut = os.fstat(fd).st_size > self._most_bytes

    def _summarize(self, view: TaskView) -> dict[str, float]:
        folder = view.folders.get(view.task.latest_attempt_no)
        if folder is None or not folder.path:
            return {}
        try:
            with open_file(self._homes, view.task.user, f"{folder.path}/{SUMMARY_FILE}") as fd:
                content = read_object(os.pread(fd, MOST_SUMMARY_BYTES, 0))
        except (ModelmillError, UnreadableJson):
            return {}
        return {name: value for name, value in content.items() if name.isprintable() and is_number(value)}


def _list_folders(view: TaskView) -> list[AttemptFolder]:
    """Of its attempts, oldest first."""
    return [view.folders[number] for number in sorted(view.folders) if view.folders[number].path]
