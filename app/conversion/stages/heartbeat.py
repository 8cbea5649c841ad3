"""Tells Redis, twice a second while a stage runs, that its worker lives and how far it is; hears whether to go on."""

from __future__ import annotations

import logging
import threading
from types import TracebackType

import redis

from app.conversion.model import JobRecord
from app.conversion.stages.log import StageLog
from app.conversion.store import Beat, JobStore
from app.kit.clock import now, to_text

EVERY_S = 0.5
logger = logging.getLogger(__name__)


class Heartbeat:
    """lost is True once the claim no longer stands: the job was cancelled, deleted, or forgotten by a reset."""

    def __init__(self, store: JobStore, record: JobRecord, *, worker: str, worker_text: str, ttl_s: float) -> None:
        self.store = store
        self.record = record
        self.worker = worker
        self.worker_text = worker_text
        self.ttl_s = ttl_s
        self.lost = False
        self.log: StageLog | None = None
        self._progress = (0, "")
        self._told: tuple[int, str] | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"heartbeat-{record.job_id}", daemon=True)

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def progress(self, fraction: float, message: str) -> None:
        self._progress = (int(fraction * 100), message)

    def _run(self) -> None:
        while not self._stop.wait(EVERY_S):
            try:
                self._beat()
            except redis.RedisError as error:
                logger.warning("No sign of life for job %s: %s", self.record.job_id, error)

    def _beat(self) -> None:
        portion = self.log.drain() if self.log else b""
        if portion:
            self.store.log_append(self.record.job_id, self.record.stage.step, portion)
        progress = self._progress
        is_news = bool(portion) or progress != self._told
        beat = Beat(
            worker=self.worker, worker_text=self.worker_text, claim=self.record.claim, ttl_s=self.ttl_s,
            progress=progress[0], message=progress[1], now=to_text(now()), is_news=is_news,
        )  # fmt: skip
        if not self.store.beat(self.record, beat):
            self.lost = True
            self._stop.set()
        self._told = progress
