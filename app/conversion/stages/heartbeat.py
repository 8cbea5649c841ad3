"""Reports of a running stage: its heartbeat and progress, twice a second, and its log.

One thread per queue of a worker process sends the heartbeat to Redis, and learns whether to continue. While there are
no stages it sleeps, and sends a heartbeat occasionally.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import redis

from app.conversion.model import JobRecord
from app.conversion.store import JobStore, ProgressReport
from app.kit.clock import now, to_text

EVERY_S = 0.5
AWAKE_S = 5.0
"""How long the thread is ready for another stage: one that wakes it takes longer to start."""
STOP_S = 5.0
logger = logging.getLogger(__name__)


@dataclass
class RunningStage:
    """lost is True once the claim no longer holds: the job was cancelled, deleted, or forgotten by a reset."""

    record: JobRecord
    started_at: str
    on_end: Callable[[], None]
    log: StageLog | None = None
    progress: tuple[int, str] = (0, "")
    reported: tuple[int, str] | None = None
    lost: bool = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.on_end()

    def report(self, fraction: float, message: str) -> None:
        self.progress = (int(fraction * 100), message)


class Heartbeat:
    """
    Args:
        worker: The slot's name.
        text: Creates a heartbeat, as JSON, for a job id or None.
        ttl_s: How long a heartbeat is valid.
    """

    def __init__(self, store: JobStore, *, worker: str, text: Callable[[str | None], str], ttl_s: float) -> None:
        self.store = store
        self.worker = worker
        self.text = text
        self.ttl_s = ttl_s
        self._stage: RunningStage | None = None
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._awake = threading.Event()
        """Set at the start of a stage, until there has been none for a while."""
        self._last_stage_at = -math.inf
        self._thread = threading.Thread(target=self._run, name=f"heartbeat-{worker}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends, and retires the worker at once instead of letting its last heartbeat expire."""
        self._stop.set()
        self._awake.set()
        self._thread.join(STOP_S)

    def during(self, record: JobRecord, *, started_at: str) -> RunningStage:
        """Returns a stage for a `with` block: while it runs, heartbeats concern this stage; afterwards none do."""
        stage = self._stage = RunningStage(record, started_at, self._end)
        self._last_stage_at = time.monotonic()  # it may end before the thread sees it
        if not self._awake.is_set():
            self._awake.set()
        return stage

    def _end(self) -> None:
        with self._lock:
            self._stage = None

    def _run(self) -> None:
        announced_at = -math.inf
        while not self._stop.is_set():
            at = time.monotonic()
            with self._lock:
                stage = self._stage
                try:
                    if stage is not None:
                        self._last_stage_at, announced_at = at, -math.inf
                        self._send_beat(stage)
                    elif at - announced_at >= self.ttl_s / 4:
                        self.store.announce(self.worker, self.text(None), self.ttl_s)
                        announced_at = at
                except redis.RedisError as error:
                    about = {"job_id": stage.record.job_id if stage else None, "worker": self.worker}
                    logger.warning("No sign of life from %s: %s", self.worker, error, extra=about)
            is_awake = at - self._last_stage_at < AWAKE_S
            self._pause(EVERY_S if is_awake else max(EVERY_S, announced_at + self.ttl_s / 4 - at), is_awake=is_awake)
        with contextlib.suppress(redis.RedisError):
            self.store.retire(self.worker)

    def _pause(self, seconds: float, *, is_awake: bool) -> None:
        if not is_awake:
            self._awake.clear()
            if self._stop.is_set() or self._stage is not None or not self._awake.wait(seconds):
                return  # the first two may have woken it just before it was cleared
        self._stop.wait(EVERY_S)

    def _send_beat(self, stage: RunningStage) -> None:
        record = stage.record
        portion = stage.log.drain() if stage.log else b""
        if portion:
            self.store.log_append(record.job_id, record.stage.step, portion)
        progress = stage.progress
        is_news = bool(portion) or progress != stage.reported
        beat = ProgressReport(
            worker=self.worker,
            worker_text=self.text(record.job_id),
            ttl_s=self.ttl_s,
            progress=progress[0],
            message=progress[1],
            started_at=stage.started_at,
            now=to_text(now()),
            is_news=is_news,
        )
        stage.lost = stage.lost or not self.store.beat(record, beat)
        stage.reported = progress


class StageLog:
    """Written by the stage's thread, drained by its heartbeat. Output beyond the limit is dropped and counted.

    Args:
        limit_bytes: The size of the file at most.
        live_bytes: How much is shown live; the rest goes only to the file, and is not kept in memory.
    """

    def __init__(self, path: Path, limit_bytes: int, live_bytes: int) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self.live_bytes = live_bytes
        self._lock = threading.Lock()
        self._pending = bytearray()
        self._written = 0
        self._dropped = 0
        self._file: IO[bytes]

    def __enter__(self) -> StageLog:
        self._file = self.path.open("wb", buffering=0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._dropped:
            note = f"\n[log limit of {self.limit_bytes} bytes reached: {self._dropped} more bytes were dropped]\n"
            self._file.write(note.encode())
        self._file.close()

    def write(self, data: bytes) -> None:
        portion = data[: max(0, self.limit_bytes - self._written)]
        self._dropped += len(data) - len(portion)
        if not portion:
            return
        self._file.write(portion)
        live = portion[: max(0, self.live_bytes - self._written)]
        self._written += len(portion)
        with self._lock:
            self._pending += live

    def drain(self) -> bytes:
        """The live output since the last call."""
        with self._lock:
            portion, self._pending = bytes(self._pending), bytearray()
        return portion
