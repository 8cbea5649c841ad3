"""The life of a worker process: its slots, what it finds left by a dead predecessor, its signs of life."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
from typing import Any

import dramatiq
import redis

from app.conversion.service.dispatch import DONE, QUEUES
from app.conversion.stages import Heartbeat, Worker
from app.kit.slots import Doing, Slot, take_slot
from app.wiring import Parts

STAND_IN_S = 1.0
logger = logging.getLogger(__name__)


class WorkerLife(dramatiq.Middleware):
    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.slots: dict[str, Slot] = {}
        self.heartbeats: dict[str, Heartbeat] = {}
        self.started_at = time.time()

    def worker(self, queue: str) -> Worker:
        """Who this process is to a stage of this queue."""
        return Worker(self.slots[queue], self.parts.broker.broker_id, self.heartbeats[queue])

    def before_worker_boot(self, broker: Any, worker: Any) -> None:
        """Take a slot per queue, and say what died in it, before the first message is fetched."""
        settings = self.parts.settings
        wanted = worker.consumer_whitelist
        for queue in (*QUEUES, DONE):
            if wanted and queue not in wanted:
                continue
            slot, left = take_slot(settings.run, queue, settings.node_name)
            self.slots[queue] = slot
            for doing in left:
                self._inherit(doing, queue)
            slot.write(Doing(broker.broker_id))
            self.heartbeats[queue] = Heartbeat(
                self.parts.store, worker=slot.name, ttl_s=settings.worker_ttl_s,
                text=lambda job_id, queue=queue: self._text(queue, job_id),  # type: ignore[misc]
            )  # fmt: skip
            self.heartbeats[queue].start()
        if any(queue in self.slots for queue in QUEUES):
            self.parts.sandbox.start()

    def before_worker_shutdown(self, broker: Any, worker: Any) -> None:
        for heartbeat in self.heartbeats.values():
            heartbeat.stop()

    def after_worker_shutdown(self, broker: Any, worker: Any) -> None:
        for slot in self.slots.values():
            slot.clear()
            slot.release()
        self.parts.sandbox.close()

    def _inherit(self, doing: Doing, queue: str) -> None:
        if doing.work_dir:
            shutil.rmtree(doing.work_dir, ignore_errors=True)
        while True:
            try:
                self.parts.conversion.dispatch.lost(doing)
                self.parts.conversion.dispatch.adopt(doing, [queue])
                return
            except redis.RedisError as error:
                logger.warning("Redis is not there yet: %s", error)
                time.sleep(STAND_IN_S)

    def _text(self, queue: str, job_id: str | None) -> str:
        settings = self.parts.settings
        return json.dumps(
            {
                "queue": queue,
                "host": settings.node_name,
                "pid": os.getpid(),
                "started_at": round(self.started_at, 3),
                "job_id": job_id,
                "toolchains": list(settings.toolchains),
            }
        )
