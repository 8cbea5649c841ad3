"""The instructions of the agent to the video processes that it starts: a JSON file each. It is rewritten for changes
that need no restart (a plan, a constraint, hosts, stages), and read again by the process."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from app.edge.work_file import WorkMissing, work_document
from app.kit.files import write_whole
from app.kit.text.json_values import JsonObject
from app.video.model.job import JobContent, ServicesContent

LOOK_S = 0.25
"""Seconds between checks whether the file was written again."""
Work = TypeVar("Work")
logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _ProcessWork:
    host: str
    """Address on which it listens."""
    port: int
    folder: Path
    """The job's or the host's own folder, kept over restarts."""
    agent_url: str
    node: str
    tls: tuple[str, ...] = ()
    """Paths of the key, the certificate and the authorities of this node; empty: it has no certificate."""


@dataclass(frozen=True)
class RunnerWork(_ProcessWork):
    """Instructions for the process that runs one job."""

    content: JobContent
    source: str
    """Path or URL of the video on this node."""
    media_server: str = ""
    """The URL below which pictures are broadcast; empty: the node has none."""

    def write(self, path: Path) -> None:
        data = {**vars(self), "content": self.content.to_json(), "folder": str(self.folder)}
        write_whole(path, json.dumps(data, ensure_ascii=False))

    @staticmethod
    def read(path: Path) -> RunnerWork:
        """Reads the file.

        Raises:
            WorkMissing: It cannot be read.
        """
        with work_document(path, "runner") as data:
            content, source = JobContent.from_json(data["content"]), str(data["source"])
            return RunnerWork(content, source, media_server=data["media_server"], **_read_surroundings(data))


@dataclass(frozen=True)
class ServicesWork(_ProcessWork):
    """Instructions for the process that serves the stages of a node."""

    content: ServicesContent
    blobs: Mapping[str, Path]
    """Files of models by sha256."""
    is_encrypted: bool = False
    """It accepts encrypted connections only."""
    provider: str = "auto"
    """The node's own execution provider, for stages without one."""

    def write(self, path: Path) -> None:
        blobs = {sha256: str(file) for sha256, file in self.blobs.items()}
        content, folder = self.content.to_json(), str(self.folder)
        data = {**vars(self), "content": content, "blobs": blobs, "folder": folder}
        write_whole(path, json.dumps(data, ensure_ascii=False))

    @staticmethod
    def read(path: Path) -> ServicesWork:
        """Reads the file.

        Raises:
            WorkMissing: It cannot be read.
        """
        with work_document(path, "process") as data:
            blobs = {str(sha256): Path(file) for sha256, file in data["blobs"].items()}
            content, is_encrypted = ServicesContent.from_json(data["content"]), bool(data["is_encrypted"])
            surroundings, provider = _read_surroundings(data), str(data["provider"])
            return ServicesWork(content, blobs, is_encrypted=is_encrypted, provider=provider, **surroundings)


def _read_surroundings(data: Any) -> JsonObject:
    """Returns the fields of _ProcessWork."""
    texts = {name: str(data[name]) for name in ("host", "agent_url", "node")}
    return {**texts, "port": int(data["port"]), "folder": Path(data["folder"]), "tls": tuple(data["tls"])}


class WatchedWork(Generic[Work]):
    """Watches the file of a process. For one thread."""

    def __init__(
        self,
        path: Path,
        read: Callable[[Path], Work],
        *,
        is_read: bool = False,
        unread: str = "What it says last stays in force",
    ) -> None:
        """Creates the watcher.

        Args:
            path: of the file.
            read: raises WorkMissing.
            is_read: read the file now, and report only later changes; otherwise the first check reads it, since it may
                have changed since the start.
            unread: logged if the file cannot be read.
        """
        self._path, self._read, self._unread = path, read, unread
        self._mark = self._find_current() if is_read else None

    def changed(self) -> Work | None:
        """Returns the instructions if they were written since the last call. A file that cannot be read is ignored."""
        mark = self._find_current()
        if mark is None or mark == self._mark:
            return None
        self._mark = mark
        try:
            return self._read(self._path)
        except WorkMissing as error:
            logger.warning("%s: %s", self._unread, error.message)
            return None

    def _find_current(self) -> tuple[int, int, int] | None:
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return stat.st_mtime_ns, stat.st_size, stat.st_ino
