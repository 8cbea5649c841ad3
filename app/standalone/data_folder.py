"""The data folder of a stack: one stack at a time, enough space, a key that outlives restarts."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from app.kit.cli.command import CannotStart
from app.kit.text.json_values import JsonObject

MIN_FREE_BYTES = 200 * 1024 * 1024
KEPT_LOGS = 3


@dataclass(frozen=True)
class DataFolder:
    """The paths in a stack's data folder. `run` belongs to the running processes only."""

    root: Path
    run: Path

    @property
    def logs(self) -> Path:
        return self.run / "logs"

    def prepare(self) -> None:
        """Create the folders and test them.

        Raises:
            CannotStart: They cannot be written, or the disk is nearly full.
        """
        try:
            for folder in (self.root, self.run, self.logs):
                folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.NamedTemporaryFile(dir=self.root):
                pass
        except OSError as error:
            raise CannotStart(
                f"the data folder {self.root} cannot be written: {error.strerror or error}",
                hint="Choose another one with --data-dir.",
            ) from error
        free_bytes = shutil.disk_usage(self.root).free
        if free_bytes < MIN_FREE_BYTES:
            raise CannotStart(
                f"the disk of {self.root} is nearly full: {free_bytes >> 20} MB are free, "
                f"{MIN_FREE_BYTES >> 20} MB are needed",
                hint="Free some space, or choose a folder on another disk with --data-dir.",
            )

    def new_log(self, name: str) -> Path:
        """Returns the path of a new log; the previous ones are kept as .1, .2, .3."""
        path = self.logs / f"{name}.log"
        for number in range(KEPT_LOGS, 0, -1):
            older = self.logs / f"{name}.log.{number}"
            newer = self.logs / f"{name}.log.{number - 1}" if number > 1 else path
            if newer.exists():
                newer.replace(older)
        return path


class Lock:
    """Held while a stack runs in the folder; the kernel releases it when the process ends, however it ends."""

    def __init__(self, folder: DataFolder) -> None:
        """Takes the lock.

        Raises:
            CannotStart: Another stack holds it.
        """
        self.path = folder.run / "lock"
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.pread(self._descriptor, 4096, 0)
            os.close(self._descriptor)
            raise _make_taken(folder, owner) from error
        self.write({"pid": self.pid})

    @classmethod
    def adopted(cls, folder: DataFolder, descriptor: int) -> Lock:
        """Returns the lock of a process that held it before it became this program."""
        lock = cls.__new__(cls)
        lock.path = folder.run / "lock"
        lock._descriptor = descriptor
        os.set_inheritable(descriptor, False)
        return lock

    @staticmethod
    def owner(run: Path) -> int | None:
        """Returns the pid of the stack that runs in the folder; None if there is none."""
        try:
            with (run / "lock").open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            with contextlib.suppress(OSError, ValueError, KeyError):
                return int(json.loads((run / "lock").read_bytes())["pid"])
        except OSError:
            pass
        return None

    def hand_over(self) -> int:
        """Returns the descriptor, which from now on outlives an exec."""
        os.set_inheritable(self._descriptor, True)
        return self._descriptor

    @property
    def pid(self) -> int:
        return os.getpid()

    def write(self, facts: JsonObject) -> None:
        """Writes what others may know about the owner: {"pid", "url"}."""
        data = json.dumps(facts).encode()
        os.pwrite(self._descriptor, data, 0)
        os.ftruncate(self._descriptor, len(data))

    def release(self) -> None:
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def _make_taken(folder: DataFolder, owner: bytes) -> CannotStart:
    who = ""
    with contextlib.suppress(ValueError, KeyError):
        facts = json.loads(owner)
        who = f" (process {facts['pid']}{', ' + facts['url'] if 'url' in facts else ''})"
    return CannotStart(
        f"Modelmill already runs in {folder.root}{who}",
        hint="Use that one, stop it first, or choose another folder with --data-dir and another --port.",
    )
