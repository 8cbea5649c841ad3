"""The children of the host, and the order in which they compute calls."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

import numpy as np

from app.edge.video.stage_host.child_messages import CallRequest, FieldPictures, OpenRequest, RunAnswer, RunRequest
from app.edge.video.stage_host.errors import StageDied, StageHung
from app.edge.video.stage_host.fair_queue import FairQueue
from app.edge.video.stage_host.served_stages import StageVariant
from app.edge.video.stage_host.stage_breakers import StageBreakers
from app.edge.video.stage_host.worker import OPEN_S, ChildProcess, ChildReply, error_of
from app.inference.prediction import Picture
from app.kit.errors import ModelmillError

LOOK_AHEAD_S, AHEAD_S = 0.02, OPEN_S
"""Seconds between two looks whether a stage is open ahead, and for which it may be opened."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StageResult:
    """A child's answer to a call."""

    outputs: Mapping[str, Any]
    image: bytes
    """The drawing, JPEG; empty for none."""
    server_s: float
    """Seconds of computing."""
    queue_s: float
    """Seconds until a child started with it, including the time to open the model."""
    runtime: str
    """What really ran the model, for readers."""


@dataclass(frozen=True)
class StageTask:
    """One call of a stage."""

    job: str
    """Empty for a call outside of jobs."""
    variant: StageVariant
    fields: Mapping[str, Any]
    pictures: Mapping[str, tuple[Picture, ...]]
    clips: frozenset[str]
    """The fields of the pictures that are lists."""
    draw: bool
    asked_at: float = field(default_factory=time.monotonic)


_Entry = tuple[StageTask, asyncio.Future[StageResult]]


class StagePool:
    """The children, and the calls that wait for them. For the event loop."""

    def __init__(self, processes: int) -> None:
        self.processes = processes
        self.runtimes: dict[str, str] = {}
        """What runs each stage, by key, as far as known."""
        self._queue: FairQueue[_Entry] = FairQueue()
        self._breakers = StageBreakers()
        self._workers = [ChildProcess() for _ in range(processes)]
        self._serving: set[str] = set()
        self._woken = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []
        self._preparing: dict[str, asyncio.Task[None]] = {}
        """By id of a variant."""
        self._opening_s: dict[ChildProcess, float] = {}
        """Time of opening a model in the current call: later calls benefit from it, so it does not count for the job
        that came first."""

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def pids(self) -> list[int]:
        return [worker.pid for worker in self._workers if worker.pid]

    def start(self) -> None:
        self._tasks = [asyncio.create_task(self._work(worker)) for worker in self._workers]

    async def close(self) -> None:
        tasks = [*self._tasks, *self._preparing.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in self._workers:
            await worker.end()

    async def serve(self, ids: set[str], keys: set[str]) -> None:
        """Closes variants other than these wherever they are open."""
        self._serving = ids
        self.runtimes = {key: runtime for key, runtime in self.runtimes.items() if key in keys}
        async with self._woken:
            self._woken.notify_all()

    async def prepare(self, variant: StageVariant) -> None:
        """Opens a variant in each child, beside what they compute. Goes on if it is cancelled.

        Raises:
            StagePaused: The stage has ended too many processes.
            StageHung, StageDied: A child is gone.
            ModelmillError: What opening raises.
        """
        self._breakers.check(variant.key, time.monotonic())
        if variant.id not in self._preparing:
            self._preparing[variant.id] = asyncio.create_task(self._prepare(variant))
        await asyncio.shield(self._preparing[variant.id])

    async def _prepare(self, variant: StageVariant) -> None:
        try:
            await asyncio.gather(*(self._prepare_in(worker, variant) for worker in self._workers))
        except (StageHung, StageDied):
            self._breakers.failed(variant.key, time.monotonic())
            raise
        finally:
            del self._preparing[variant.id]

    async def _prepare_in(self, worker: ChildProcess, variant: StageVariant) -> None:
        ahead, until = _opening_of(variant, is_ahead=True), time.monotonic() + AHEAD_S
        while variant.id not in worker.opened:
            reply = await worker.ask(ahead, timeout_s=OPEN_S)
            is_late = time.monotonic() >= until
            if variant.id not in self._serving:
                await self._close(worker, [variant.id])
                return
            if is_late or reply.header["is_ready"]:
                patience_s = LOOK_AHEAD_S if is_late else OPEN_S  # one that hangs ends the process, as all wait for it
                self._note_opened(worker, variant, await worker.ask(_opening_of(variant), timeout_s=patience_s))
            else:
                await asyncio.sleep(LOOK_AHEAD_S)

    def check(self, job: str, key: str) -> None:
        """Checks that a call is possible; called before pictures are read, too.

        Raises:
            TooMany, StagePaused: It is not.
        """
        self._breakers.check(key, time.monotonic())
        self._queue.check(job)

    async def compute(self, task: StageTask) -> StageResult:
        """Computes a task. One that is cancelled while it waits is not computed.

        Raises:
            TooMany, StagePaused, StageHung, StageDied: It cannot be computed.
            ModelmillError: What the stage raises.
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
        """Runs until cancelled."""
        while True:
            async with self._woken:
                await self._woken.wait_for(lambda: len(self._queue) > 0 or self._list_stale(worker))
                entry = self._queue.take()
            await self._close_stale(worker)
            if entry is None:
                continue
            batch, began = [entry], time.monotonic()
            try:
                await self._fill(batch)
                began = time.monotonic()
                await self._answer(worker, [each for _, each in batch], began)
            finally:
                cost_s = time.monotonic() - began - self._opening_s.pop(worker, 0.0)
                for job, (_, future) in batch:
                    self._queue.settle(job, cost_s / len(batch))
                    future.cancel()  # unless it is done

    async def _fill(self, batch: list[tuple[str, _Entry]]) -> None:
        """Adds to a call those of any job that are computed together with it, after waiting for them."""
        first, _ = batch[0][1]
        variant, until = first.variant, first.asked_at + first.variant.batching.wait_s
        while len(batch) < variant.batching.most:
            entry = self._queue.take_along(lambda entry: entry[0].variant.id == variant.id)
            if entry is not None:
                batch.append(entry)
            elif not await self._is_woken(until - time.monotonic()):
                break

    async def _is_woken(self, within_s: float) -> bool:
        """Waits for another call, which a free worker may take first."""
        if within_s <= 0:
            return False
        try:
            async with asyncio.timeout(within_s), self._woken:
                await self._woken.wait()
        except TimeoutError:
            return False
        return True

    async def _answer(self, worker: ChildProcess, entries: Sequence[_Entry], began: float) -> None:
        entries = [(task, future) for task, future in entries if not future.done()]  # others' callers are gone
        if not entries:
            return
        try:
            outcomes = await self._compute(worker, [task for task, _ in entries], began)
        except ModelmillError as error:
            outcomes = [error] * len(entries)
        except Exception:  # whatever it is, each caller gets an answer
            logger.exception("The stage %s could not be computed", entries[0][0].variant.key)
            outcomes = [ModelmillError("Something broke in this host.", hint="Its log says what.")] * len(entries)
        for (_, future), outcome in zip(entries, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, ModelmillError):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

    async def _compute(
        self, worker: ChildProcess, tasks: Sequence[StageTask], began: float
    ) -> list[StageResult | ModelmillError]:
        """Returns an outcome for each, all of the same variant; an error that is raised concerns all of them."""
        variant = tasks[0].variant
        self._breakers.check(variant.key, began)
        await worker.check()
        try:
            runtime = worker.opened.get(variant.id) or await self._open(worker, variant)
            opened = time.monotonic()
            blobs = [blob for task in tasks for blob in _list_blobs(task.pictures)]
            reply = await worker.ask(_build_header(tasks), blobs, timeout_s=variant.timeout_s * len(tasks))
        except (StageHung, StageDied) as error:
            self._breakers.failed(variant.key, time.monotonic())
            logger.warning("The stage %s has cost a process: %s", variant.key, error.message)
            raise type(error)(f"The stage {variant.key}: {error.message}", hint=error.hint) from None
        except ModelmillError as error:
            raise _of_stage(error, variant) from None
        self._breakers.succeeded(variant.key)
        return _read_outcomes(reply, tasks, runtime, opened)

    async def _open(self, worker: ChildProcess, variant: StageVariant) -> str:
        began = time.monotonic()
        try:
            reply = await worker.ask(_opening_of(variant), timeout_s=OPEN_S)
        finally:
            self._opening_s[worker] = time.monotonic() - began
        return self._note_opened(worker, variant, reply)

    def _note_opened(self, worker: ChildProcess, variant: StageVariant, reply: ChildReply) -> str:
        runtime = str(reply.header["runtime"])
        worker.opened[variant.id] = self.runtimes[variant.key] = runtime
        logger.info("Stage opened", extra={"stage": variant.key, "model": variant.model, "runtime": runtime})
        return runtime

    def _list_stale(self, worker: ChildProcess) -> list[str]:
        return [id_ for id_ in worker.opened if id_ not in self._serving]

    async def _close_stale(self, worker: ChildProcess) -> None:
        stale = self._list_stale(worker)
        if stale:
            await self._close(worker, stale)

    async def _close(self, worker: ChildProcess, ids: Sequence[str]) -> None:
        for id_ in ids:
            worker.opened.pop(id_, None)
        try:
            await worker.ask({"do": "close", "variants": list(ids)}, timeout_s=OPEN_S)
        except ModelmillError as error:
            logger.warning("A child could not close stages: %s", error.message)


def _of_stage(error: ModelmillError, variant: StageVariant) -> ModelmillError:
    message = f"The stage {variant.key}: {error.message}"
    return type(error)(message, hint=error.hint, detail={**error.detail, "stage": variant.key})


def _opening_of(variant: StageVariant, *, is_ahead: bool = False) -> OpenRequest:
    do: Literal["open", "open_ahead"] = "open_ahead" if is_ahead else "open"
    return {"do": do, "stage": variant.key, "variant": variant.id, **variant.content}


def _build_header(tasks: Sequence[StageTask]) -> RunRequest:
    variant = tasks[0].variant
    return {"do": "run", "stage": variant.key, "variant": variant.id, "calls": [_call(task) for task in tasks]}


def _call(task: StageTask) -> CallRequest:
    pictures: list[FieldPictures] = [
        {"field": name, "is_clip": name in task.clips, "shapes": [list(picture.shape) for picture in several]}
        for name, several in task.pictures.items()
    ]
    return {"fields": dict(task.fields), "pictures": pictures, "draw": task.draw}


def _list_blobs(pictures: Mapping[str, Sequence[Picture]]) -> list[memoryview]:
    return [np.ascontiguousarray(picture).data.cast("B") for several in pictures.values() for picture in several]


def _read_outcomes(
    reply: ChildReply, tasks: Sequence[StageTask], runtime: str, opened: float
) -> list[StageResult | ModelmillError]:
    header = cast(RunAnswer, reply.header)
    drawings, server_s = iter(reply.blobs), header["ms"] / 1000
    outcomes = list[StageResult | ModelmillError]()
    for task, answer in zip(tasks, header["answers"], strict=True):
        if "error" in answer:
            outcomes.append(_of_stage(error_of(answer["error"]), task.variant))
        else:
            image = bytes(next(drawings)) if answer["is_drawn"] else b""
            outcomes.append(StageResult(answer["outputs"], image, server_s, opened - task.asked_at, runtime))
    return outcomes
