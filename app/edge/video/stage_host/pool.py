"""The children of the host, and which call each of them computes next."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.edge.video.stage_host.circuit_breaker import CircuitBreaker
from app.edge.video.stage_host.errors import StageDied, StageHung
from app.edge.video.stage_host.fair_queue import FairQueue
from app.edge.video.stage_host.served_stages import Variant
from app.edge.video.stage_host.worker import OPEN_S, Reply, Worker
from app.inference.prediction import Picture
from app.kit.errors import ModelmillError

USERS = ""
"""The job of calls that no job makes."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Done:
    """queue_s: until a child began with it, opening the model included. image: what was drawn, JPEG."""

    outputs: Mapping[str, Any]
    image: bytes
    server_s: float
    queue_s: float
    runtime: str


@dataclass(frozen=True)
class Task:
    job: str
    variant: Variant
    fields: Mapping[str, Any]
    pictures: Mapping[str, tuple[Picture, ...]]
    clips: frozenset[str]
    """Of the pictures, the fields that are lists."""
    draw: bool
    asked_at: float = field(default_factory=time.monotonic)


_Entry = tuple[Task, asyncio.Future[Done]]


class Pool:
    """runtimes: what runs each stage, by key, as far as that is known. For the event loop."""

    def __init__(self, processes: int, circuit: CircuitBreaker | None = None) -> None:
        self.processes = processes
        self.runtimes: dict[str, str] = {}
        self._queue: FairQueue[_Entry] = FairQueue()
        self._circuit = circuit or CircuitBreaker()
        self._workers = [Worker() for _ in range(processes)]
        self._serving: set[str] = set()
        self._woken = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._opening_s: dict[Worker, float] = {}
        """What opening a model has taken in the call under way: all that come after have it for nothing, so it is not
        held against the job that came first."""

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers if worker.pid]

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work(worker)) for worker in self._workers]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for worker in self._workers:
            await worker.end()

    async def serve(self, ids: set[str], keys: set[str]) -> None:
        """Variants that are not among these are closed wherever they are open."""
        self._serving = ids
        self.runtimes = {key: runtime for key, runtime in self.runtimes.items() if key in keys}
        async with self._woken:
            self._woken.notify_all()

    def check(self, job: str, key: str) -> None:
        """Before the work of reading pictures. Raises TooMany, StagePaused."""
        self._circuit.check(key, time.monotonic())
        self._queue.check(job)

    async def compute(self, task: Task) -> Done:
        """Who cancels it while it waits has it computed by nobody. Raises TooMany, StagePaused, StageHung, StageDied,
        and what the stage raises."""
        self.check(task.job, task.variant.key)
        future: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        entry = (task, future)
        self._queue.put(task.job, entry)
        try:
            async with self._woken:
                self._woken.notify()
            return await future
        finally:
            self._queue.drop(task.job, entry)

    async def _work(self, worker: Worker) -> None:
        """For ever."""
        while True:
            async with self._woken:
                await self._woken.wait_for(lambda: len(self._queue) > 0 or self._stale(worker))
                taken = self._queue.take()
            await self._close_stale(worker)
            if taken is None:
                continue
            job, (task, future) = taken
            began = time.monotonic()
            try:
                await self._answer(worker, task, future, began)
            finally:
                self._queue.settle(job, time.monotonic() - began - self._opening_s.pop(worker, 0.0))

    async def _answer(self, worker: Worker, task: Task, future: asyncio.Future[Done], began: float) -> None:
        if future.done():  # who asked has gone
            return
        try:
            done = await self._computed(worker, task, began)
        except ModelmillError as error:
            _settle(future, error)
        except asyncio.CancelledError:
            future.cancel()
            raise
        except Exception:
            logger.exception("The stage %s could not be computed", task.variant.key)
            _settle(future, ModelmillError("Something broke in this host.", hint="Its log says what."))
        else:
            if not future.done():
                future.set_result(done)

    async def _computed(self, worker: Worker, task: Task, began: float) -> Done:
        variant = task.variant
        self._circuit.check(variant.key, began)
        await worker.check()
        try:
            runtime = worker.opened.get(variant.id) or await self._open(worker, variant)
            opened = time.monotonic()
            reply = await worker.ask(_header(task), _blobs(task.pictures), timeout_s=variant.timeout_s)
        except (StageHung, StageDied) as error:
            self._circuit.ended(variant.key, time.monotonic())
            logger.warning("The stage %s has cost a process: %s", variant.key, error.message)
            raise type(error)(f"The stage {variant.key}: {error.message}", hint=error.hint) from None
        except ModelmillError as error:
            told = f"The stage {variant.key}: {error.message}"
            raise type(error)(told, hint=error.hint, detail={**error.detail, "stage": variant.key}) from None
        self._circuit.went_well(variant.key)
        return _done(reply, runtime, opened - task.asked_at)

    async def _open(self, worker: Worker, variant: Variant) -> str:
        header = {"do": "open", "stage": variant.key, "variant": variant.id, **variant.opening}
        began = time.monotonic()
        try:
            reply = await worker.ask(header, timeout_s=OPEN_S)
        finally:
            self._opening_s[worker] = time.monotonic() - began
        runtime = str(reply.header["runtime"])
        worker.opened[variant.id] = self.runtimes[variant.key] = runtime
        logger.info("Stage opened", extra={"stage": variant.key, "model": variant.model, "runtime": runtime})
        return runtime

    def _stale(self, worker: Worker) -> list[str]:
        return [id_ for id_ in worker.opened if id_ not in self._serving]

    async def _close_stale(self, worker: Worker) -> None:
        stale = self._stale(worker)
        if not stale:
            return
        for id_ in stale:
            del worker.opened[id_]
        try:
            await worker.ask({"do": "close", "variants": stale}, timeout_s=OPEN_S)
        except ModelmillError as error:
            logger.warning("A child could not close stages: %s", error.message)


def _settle(future: asyncio.Future[Done], error: ModelmillError) -> None:
    if not future.done():
        future.set_exception(error)


def _header(task: Task) -> dict[str, Any]:
    pictures = [
        {"field": name, "is_clip": name in task.clips, "shapes": [list(picture.shape) for picture in several]}
        for name, several in task.pictures.items()
    ]
    return {
        "do": "run",
        "stage": task.variant.key,
        "variant": task.variant.id,
        "fields": dict(task.fields),
        "pictures": pictures,
        "draw": task.draw,
    }


def _blobs(pictures: Mapping[str, Sequence[Picture]]) -> list[memoryview]:
    return [np.ascontiguousarray(picture).data.cast("B") for several in pictures.values() for picture in several]


def _done(reply: Reply, runtime: str, queue_s: float) -> Done:
    image = bytes(reply.blobs[0]) if reply.blobs else b""
    return Done(reply.header["outputs"], image, reply.header["ms"] / 1000, queue_s, runtime)
