"""The life of a worker process: its slots, the work left by a dead predecessor, its heartbeat."""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import multiprocessing
import os
import shutil
import signal
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import dramatiq
import redis

from app.bootstrap.container import Container
from app.conversion.model import Stage
from app.conversion.stages.heartbeat import Heartbeat
from app.conversion.stages.job_claimer import JobClaimer
from app.conversion.stages.runner import StageWorker
from app.conversion.toolchains import libraries
from app.conversion.toolchains.installed import list_installed
from app.kit.process.slots import InFlight, Slot, take_slot
from app.kit.queue.messages import Queue
from app.kit.queue.retry import until_answered

PR_SET_PDEATHSIG = 1
REMOVE_S = 5.0
logger = logging.getLogger(__name__)


class WorkerLife(dramatiq.Middleware):
    def __init__(self, container: Container) -> None:
        self.container = container
        self.slots: dict[str, Slot] = {}
        self.heartbeats: dict[str, Heartbeat] = {}
        self.workers: dict[str, StageWorker] = {}
        self.started_at = time.time()

    def worker(self, queue: str) -> StageWorker:
        """Who this process is to the stage of this queue."""
        return self.workers[queue]

    def name(self, queue: str) -> str | None:
        """Of this process for a queue, as the records and the signs of life have it."""
        return self.slots[queue].name if queue in self.slots else None

    def after_process_boot(self, broker: Any) -> None:
        """End with the master process: without it nobody could stop this worker, or would count it."""
        master = multiprocessing.parent_process()
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        if master is not None and os.getppid() != master.pid:  # it died before the line above
            os.kill(os.getpid(), signal.SIGTERM)

    def before_worker_boot(self, broker: Any, worker: dramatiq.Worker) -> None:
        """Take a slot per queue, and say what died in it, before the first message is fetched."""
        settings = self.container.settings
        queues_of_worker = worker.consumer_whitelist
        stages = {stage.step: stage for stage in Stage}
        for queue in (*stages, Queue.DONE.value):
            if queues_of_worker and queue not in queues_of_worker:
                continue
            slot, left = take_slot(settings.run, queue, settings.node_name)
            self.slots[queue] = slot
            for abandoned in left:
                until_answered(partial(self._settle, abandoned.doing, queue), "settle what a dead worker left")
                abandoned.settled()
            slot.write(InFlight(broker.broker_id))
            self.heartbeats[queue] = Heartbeat(
                self.container.store,
                worker=slot.name,
                ttl_s=settings.worker_ttl_s,
                text=partial(self._to_text, queue),
            )
            self.heartbeats[queue].start()
            if queue in stages:
                claimer = JobClaimer(stages[queue], slot, self.container.store, broker)
                broker.claimers[queue] = claimer
                self.workers[queue] = StageWorker(claimer, self.heartbeats[queue])
        if self.workers:
            stages_here = [own.claimer.stage for own in self.workers.values()]
            self.container.sandbox.start(libraries.of_stages(stages_here), at_once=len(stages_here))
        gc.freeze()  # what is imported stays: to look through it again and again would halt the work each time

    def after_worker_shutdown(self, broker: Any, worker: dramatiq.Worker) -> None:
        """Nothing is in progress now, unless a stage was cut off before it could report: then the slot still knows
        it."""
        self.container.sandbox.close()
        for queue, slot in self.slots.items():
            doing = slot.read()
            try:
                if doing is not None:
                    self._give_back(doing, queue)
                    self._settle(doing, queue)
                slot.clear()
            except redis.RedisError as error:
                logger.warning("Redis is away, so the next worker has to settle what this one did: %s", error)
            slot.release()
        for heartbeat in self.heartbeats.values():
            heartbeat.stop()

    def _give_back(self, doing: InFlight, queue: str) -> None:
        """The jobs whose message was cut off between its fetch and its work: claimed, and never started."""
        if queue not in self.workers:
            return
        claimer = self.workers[queue].claimer
        for job_id in claimer.unbegun():
            claimer.give_back(job_id)
            self.container.conversion.dispatch.lost(replace(doing, record_id=job_id, claim=doing.next_claim))

    def _settle(self, doing: InFlight, queue: str) -> None:
        """Settles the work of an ended worker. It may be called again."""
        if doing.work_dir and not self.container.conversion.dispatch.has_gone_on(doing):
            _remove(Path(doing.work_dir))
        self.container.conversion.dispatch.lost(doing)
        self.container.conversion.dispatch.requeue_from(doing, [queue, Queue.PERIODIC])

    def _to_text(self, queue: str, job_id: str | None) -> str:
        settings = self.container.settings
        return json.dumps(
            {
                "queue": queue,
                "host": settings.node_name,
                "pid": os.getpid(),
                "started_at": round(self.started_at, 3),
                "job_id": job_id,
                "toolchains": list_installed(settings.toolchains, kneron_python=settings.kneron_python),
            }
        )


def _remove(folder: Path) -> None:
    """Until it is gone: the toolchain of a killed worker ends a moment after it, and may be writing still."""
    deadline = time.monotonic() + REMOVE_S
    shutil.rmtree(folder, ignore_errors=True)
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
        shutil.rmtree(folder, ignore_errors=True)
