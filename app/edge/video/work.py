"""The instructions of the agent to the video processes that it starts: one JSON file each, rewritten when something
changes that needs no restart (a plan, a constraint, hosts, stages), and read again by the process."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from app.kit.errors import BadInput
from app.kit.files.whole_files import write_whole
from app.video.model.job import JobContent, ServicesContent

VARIABLE = "MODELMILL_WORK"
"""Of the environment: path of the file."""
LOOK_S = 0.25
"""How often a process looks whether its file has been written again."""
Work = TypeVar("Work")
logger = logging.getLogger(__name__)


class NoWork(BadInput):
    """This process was not started by an agent, or what it was told cannot be read."""

    code = "NO_WORK"


@dataclass(frozen=True)
class RunnerWork:
    """Of the process that runs one job."""

    content: JobContent
    source: str
    """Path or URL of the video, as this node knows it."""
    host: str
    """What it binds to."""
    port: int
    folder: Path
    """The job's own, kept over restarts."""
    agent_url: str
    node: str

    def write(self, path: Path) -> None:
        data = {**vars(self), "content": self.content.to_json(), "folder": str(self.folder)}
        write_whole(path, json.dumps(data, ensure_ascii=False))

    @staticmethod
    def read(path: Path) -> RunnerWork:
        """Raises NoWork."""
        with _reading(path, "runner") as data:
            return RunnerWork(JobContent.from_json(data["content"]), str(data["source"]), *_surroundings(data))


@dataclass(frozen=True)
class ServicesWork:
    """Of the process that serves the stages of a node."""

    content: ServicesContent
    blobs: Mapping[str, Path]
    """Files of models, by their sha256."""
    host: str
    """What it binds to."""
    port: int
    folder: Path
    """The host's own, kept over restarts."""
    agent_url: str
    node: str

    def write(self, path: Path) -> None:
        blobs = {sha256: str(file) for sha256, file in self.blobs.items()}
        content, folder = self.content.to_json(), str(self.folder)
        data = {**vars(self), "content": content, "blobs": blobs, "folder": folder}
        write_whole(path, json.dumps(data, ensure_ascii=False))

    @staticmethod
    def read(path: Path) -> ServicesWork:
        """Raises NoWork."""
        with _reading(path, "process") as data:
            blobs = {str(sha256): Path(file) for sha256, file in data["blobs"].items()}
            return ServicesWork(ServicesContent.from_json(data["content"]), blobs, *_surroundings(data))


@contextmanager
def _reading(path: Path, reader: str) -> Iterator[Any]:
    """What the file holds. Raises NoWork for one that cannot be read, also by what is done with it."""
    try:
        yield json.loads(path.read_bytes())
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, BadInput) as error:
        raise NoWork(f"{path} does not say what this {reader} is to do: {error}.") from None


def _surroundings(data: Any) -> tuple[str, int, Path, str, str]:
    """Host, port, folder, agent_url and node."""
    return str(data["host"]), int(data["port"]), Path(data["folder"]), str(data["agent_url"]), str(data["node"])


class WatchedWork(Generic[Work]):
    """Looks after the file of a process. For one thread."""

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], Work],
        *,
        is_read: bool = False,
        unread: str = "What it says last stays in force",
    ) -> None:
        """
        Args:
            path: Of the file.
            read: Raises NoWork.
            is_read: The file is read at once, so only what is written from now on is told. Else the first look reads
                it: it may be another since this process was told its work.
            unread: Logged of a file that cannot be read.
        """
        self._path, self._read, self._unread = path, read, unread
        self._mark = self._current() if is_read else None

    def changed(self) -> Work | None:
        """What it says now, if it has been written since. One that cannot be read is ignored."""
        mark = self._current()
        if mark is None or mark == self._mark:
            return None
        self._mark = mark
        try:
            return self._read(self._path)
        except NoWork as error:
            logger.warning("%s: %s", self._unread, error.message)
            return None

    def _current(self) -> tuple[int, int, int] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino


def path_from_environment() -> Path:
    """Raises NoWork."""
    path = os.environ.get(VARIABLE)
    if not path:
        raise NoWork(f"{VARIABLE} is not set.", hint="The agent of a node sets it for the processes it starts.")
    return Path(path)
