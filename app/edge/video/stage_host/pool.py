"""The children of the host, and which call each of them computes next."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.edge.circuit_breaker import CircuitBreaker
from app.edge.video.stage_host.errors import StageDied, StageHung, StagePaused
from app.edge.video.stage_host.fair_queue import FairQueue
from app.edge.video.stage_host.served_stages import StageVariant
from app.edge.video.stage_host.worker import OPEN_S, ChildProcess, ChildReply
from app.inference.prediction import Picture
from app.kit.errors import ModelmillError

ENDED_MOST = 3
"""Processes that a stage may end in a row."""
PAUSE_S = 30.0
"""In which it is not called then."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StageResult:
    """What a child has answered to a call."""

    outputs: Mapping[str, Any]
    image: bytes
    """What was drawn, JPEG; empty: nothing."""
    server_s: float
    """Of computing."""
    queue_s: float
    """Until a child started with it, opening the model included."""
    runtime: str
    """What really ran the model, for a reader."""


@dataclass(frozen=True)
class StageTask:
    """One call of a stage."""

    job: str
    """Empty for a call that no job makes."""
    variant: StageVariant
    fields: Mapping[str, Any]
    pictures: Mapping[str, tuple[Picture, ...]]
    clips: frozenset[str]
    """Of the pictures, the fields that are lists."""
    draw: bool
    asked_at: float = field(default_factory=time.monotonic)


_Entry = tuple[StageTask, asyncio.Future[StageResult]]


class StageBreakers:
    """A stage that ends the processes it runs in, again and again, is not called for a while. By a stage's key."""

    def __init__(self, *, errors: int = ENDED_MOST, pause_s: float = PAUSE_S) -> None:
        self._errors, self._pause_s = errors, pause_s
        self._breakers: dict[str, CircuitBreaker] = {}

    def check(self, key: str, now: float) -> None:
        """Raises StagePaused."""
        breaker = self._breakers.get(key)
        if breaker is not None and (left_s := breaker.left_s(now)) > 0:
            raise StagePaused(
                f"The stage {key} has ended {breaker.failures} processes in a row and rests for {left_s:.0f} s more.",
                hint="Its log says why. A frame may take timeout_s, a parameter of the stage.",
            )

    def failed(self, key: str, now: float) -> None:
        self._breakers.setdefault(key, CircuitBreaker(errors=self._errors, pause_s=self._pause_s)).failed(now)

    def succeeded(self, key: str) -> None:
        self._breakers.pop(key, None)


class StagePool:
    """The children, and the calls that wait for them. For the event loop."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self.runtimes: dict[str, str] = {}
        """What runs each stage, by key, as far as that is known."""
        self._queue: FairQueue[_Entry] = FairQueue()
        self._breakers = StageBreakers()
        self._workers = [ChildProcess() for _ in range(processes)]
        self._serving: set[str] = set()
        self._woken = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._opening_s: dict[ChildProcess, float] = {}
        """What opening a model has taken in the call in progress: all later calls have it for nothing, so it is not
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
        """To be called before pictures are read, too. Raises TooMany, StagePaused."""
        self._breakers.check(key, time.monotonic())
        self._queue.check(job)

    async def compute(self, task: StageTask) -> StageResult:
        """A task that is cancelled while it waits is not computed.

        Raises TooMany, StagePaused, StageHung, StageDied, and what the stage raises.
        """
        self.check(task.job, task.variant.key)
        future: asyncio.Future[StageResult] = asyncio.get_running_loop().create_future()
        entry = (task, future)
        self._queue.put(task.job, entry)
        try:
            async with self._woken:
                self._woken.notify()
            return await future
        finally:
            self._queue.drop(task.job, entry)

    async def _work(self, worker: ChildProcess) -> None:
        """Until it is cancelled."""
        while True:
            async with self._woken:
                await self._woken.wait_for(lambda: len(self._queue) > 0 or self._stale(worker))
                entry = self._queue.take()
            await self._close_stale(worker)
            if entry is None:
                continue
            job, (task, future) = entry
            began = time.monotonic()
            try:
                await self._answer(worker, task, future, began)
            finally:
                self._queue.settle(job, time.monotonic() - began - self._opening_s.pop(worker, 0.0))

    async def _answer(
        self, worker: ChildProcess, task: StageTask, future: asyncio.Future[StageResult], began: float
    ) -> None:
        if future.done():  # its caller has gone
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

    async def _computed(self, worker: ChildProcess, task: StageTask, began: float) -> StageResult:
        variant = task.variant
        self._breakers.check(variant.key, began)
        await worker.check()
        try:
            runtime = worker.opened.get(variant.id) or await self._open(worker, variant)
            opened = time.monotonic()
            reply = await worker.ask(_header(task), _blobs(task.pictures), timeout_s=variant.timeout_s)
        except (StageHung, StageDied) as error:
            self._breakers.failed(variant.key, time.monotonic())
            logger.warning("The stage %s has cost a process: %s", variant.key, error.message)
            raise type(error)(f"The stage {variant.key}: {error.message}", hint=error.hint) from None
        except ModelmillError as error:
            message = f"The stage {variant.key}: {error.message}"
            raise type(error)(message, hint=error.hint, detail={**error.detail, "stage": variant.key}) from None
        self._breakers.succeeded(variant.key)
        return _done(reply, runtime, opened - task.asked_at)

    async def _open(self, worker: ChildProcess, variant: StageVariant) -> str:
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

    def _stale(self, worker: ChildProcess) -> list[str]:
        return [id_ for id_ in worker.opened if id_ not in self._serving]

    async def _close_stale(self, worker: ChildProcess) -> None:
        stale = self._stale(worker)
        if not stale:
            return
        for id_ in stale:
            del worker.opened[id_]
        try:
            await worker.ask({"do": "close", "variants": stale}, timeout_s=OPEN_S)
        except ModelmillError as error:
            logger.warning("A child could not close stages: %s", error.message)


def _settle(future: asyncio.Future[StageResult], error: ModelmillError) -> None:
    if not future.done():
        future.set_exception(error)


def _header(task: StageTask) -> dict[str, Any]:
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


def _done(reply: ChildReply, runtime: str, queue_s: float) -> StageResult:
    image = bytes(reply.blobs[0]) if reply.blobs else b""
    return StageResult(reply.header["outputs"], image, reply.header["ms"] / 1000, queue_s, runtime)
