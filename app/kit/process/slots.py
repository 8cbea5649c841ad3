"""Slots: which worker of this host is which, known by a lock that the kernel releases when the worker dies.

Slot n of a queue is the file `<run>/slots/<queue>-<n>.json`. A worker holds the first one it can lock, for life, and
writes there what it is doing; whoever can lock a file with something in it has found what died with its owner.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
from dataclasses import dataclass
from pathlib import Path

from app.kit.files.private_folders import make_private

SIZE = 8192
"""Of a slot's file: more than a path and three names need."""


@dataclass(frozen=True)
class InFlight:
    """What a worker was doing. All but its name is empty while it was idle."""

    broker_id: str
    """Its name among the queues' readers."""
    record_id: str = ""
    claim: str = ""
    work_dir: str = ""


class Slot:
    """What a worker says of its work, so that its death is noticed.

    Args:
        queue: that the worker serves.
        number: of the worker among those of its queue here.
        descriptor: of the locked file; the slot closes it.
        node: name of this machine.
    """

    def __init__(self, queue: str, number: int, descriptor: int, node: str) -> None:
        self.queue = queue
        self.name = f"{node}/{queue}/{number}"
        self._descriptor = descriptor

    def write(self, doing: InFlight) -> None:
        """One write of always the same length: the file is never half old and half new."""
        os.pwrite(self._descriptor, json.dumps(vars(doing)).encode().ljust(SIZE), 0)

    def read(self) -> InFlight | None:
        data = os.pread(self._descriptor, 1 << 16, 0)
        try:
            return InFlight(**json.loads(data))
        except (ValueError, TypeError):
            return None  # never written, or cut off while being written: there was no job in it yet

    def clear(self) -> None:
        os.ftruncate(self._descriptor, 0)

    def release(self) -> None:
        os.close(self._descriptor)


@dataclass(frozen=True)
class AbandonedWork:
    """What an ended worker was doing, and the slot that says so. It goes on saying so until that is settled."""

    doing: InFlight
    slot: Slot
    is_mine: bool

    def settled(self) -> None:
        if not self.is_mine:
            self.slot.clear()
            self.slot.release()


def take_slot(run_dir: Path, queue: str, node: str) -> tuple[Slot, list[AbandonedWork]]:
    """The first free slot of the queue on this host, and what died with earlier owners of any free slot."""
    folder = make_private(run_dir / "slots")
    left: list[AbandonedWork] = []
    mine: Slot | None = None
    known = len(list(folder.glob(f"{queue}-*.json")))
    for number in itertools.count():
        slot = _try(folder / f"{queue}-{number}.json", queue, number, node)
        if slot is not None:
            is_mine = mine is None
            mine = mine or slot
            doing = slot.read()
            if doing is not None:
                left.append(AbandonedWork(doing, slot, is_mine))
            elif not is_mine:
                slot.release()
        if mine is not None and number >= known:
            return mine, left
    raise AssertionError("unreachable")


def _try(path: Path, queue: str, number: int, node: str) -> Slot | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return Slot(queue, number, descriptor, node)
