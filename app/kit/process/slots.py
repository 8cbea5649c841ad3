"""Slots identify the workers of this host by a lock that the kernel releases when the worker dies.

Slot n of a queue is the file `<run>/slots/<queue>-<n>.json`. A worker locks the first free one for its lifetime and
writes there which job it starts. If a worker can lock a file with content, the content is the work that died with its
owner.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec.json

from app.kit.files import make_private


@dataclass(frozen=True)
class InFlight:
    """The job that a worker started last, and its claim on the next."""

    broker_id: str
    """Its name among the consumers of the queue."""
    record_id: str = ""
    claim: str = ""
    """The claim on this record. A record with another claim, or none, was reported before the worker died."""
    work_dir: str = ""
    next_claim: str = ""
    """The claim that the next fetch makes. A record with it was fetched and not started."""


_IN_FLIGHT = msgspec.json.Decoder(InFlight)


class Slot:
    """Records a worker's current work, so that its death is detected.

    Args:
        queue: the queue that the worker serves.
        number: the worker's number among those of its queue on this host.
        descriptor: the locked file; the slot closes it.
        node: the name of this machine.
    """

    def __init__(self, queue: str, number: int, descriptor: int, node: str) -> None:
        self.queue = queue
        self.name = f"{node}/{queue}/{number}"
        self._descriptor = descriptor

    def write(self, doing: InFlight) -> None:
        """One write. Only its line counts: the rest of a longer one may follow."""
        os.pwrite(self._descriptor, msgspec.json.encode(doing) + b"\n", 0)

    def read(self) -> InFlight | None:
        data = os.pread(self._descriptor, 1 << 16, 0)
        try:
            return _IN_FLIGHT.decode(data.partition(b"\n")[0])
        except ValueError:
            return None  # never written, or cut off while being written: it had no job yet

    def clear(self) -> None:
        os.ftruncate(self._descriptor, 0)

    def release(self) -> None:
        os.close(self._descriptor)


@dataclass(frozen=True)
class AbandonedWork:
    """The work of a dead worker, and its slot, which keeps the record until that is settled."""

    doing: InFlight
    slot: Slot
    is_mine: bool

    def settled(self) -> None:
        if not self.is_mine:
            self.slot.clear()
            self.slot.release()


def take_slot(run_dir: Path, queue: str, node: str) -> tuple[Slot, list[AbandonedWork]]:
    """Returns the first free slot of the queue on this host, and the work that died with earlier owners of free
    slots."""
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
