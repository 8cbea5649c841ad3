"""Sends hard samples to the big model: a bounded queue, a few senders in one thread, a deadline, and the breaker.

Whoever offers a sample never waits, but with one that says so, and then only while the cloud answers. How each one
ended is told once, from this thread; nothing that the cloud does or leaves undone holds a sender longer than the
deadline of the sample it sends.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import httpx

from app.edge.joint.circuit_breaker import CircuitBreaker
from app.edge.joint.cloud_answers import MAX_ANSWER_BYTES, NoAnswer, prediction_of
from app.edge.joint.outcome import Pending
from app.inference.picture_codec import encode
from app.inference.prediction import Picture, Prediction
from app.joint_inference.model.content import BigModel
from app.joint_inference.model.tally import Breaker
from app.joint_inference.worker_options import EdgeOptions

Parts = dict[str, tuple[str | None, bytes | str, str]]
PROBE_S = 2.0
PROBE_TICK_S = 0.2
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class End:
    """cloud: its answer, or None and why there is none. was_sent: it was on its way."""

    pending: Pending
    cloud: Prediction | None = None
    error: str = ""
    was_sent: bool = False
    ms: float | None = None


class Uploads:
    def __init__(self, big_model: BigModel, service: str, options: EdgeOptions, on_end: Callable[[End], None]) -> None:
        self.url = f"{big_model.url.rstrip('/')}/{service}"
        self.options = options
        self.on_end = on_end
        self._secret = big_model.secret
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._breaker = CircuitBreaker(errors=options.breaker_errors, pause_s=options.breaker_pause_s)
        self._waiting: list[Pending] = []
        self._loop = asyncio.new_event_loop()
        self._ready = asyncio.Semaphore(0)
        self._stopping = asyncio.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="uploads", daemon=True)
        self._thread.start()

    @property
    def breaker(self) -> Breaker:
        return self._breaker.state

    def offer(self, pending: Pending) -> End | None:
        """None: it waits for a sender. Else who has no place, this one or the least hard that waited, and why."""
        with self._lock:
            if pending.waits:
                self._room.wait_for(self._has_room)
            if self._is_closed:
                return End(pending, error="the worker is ending")
            if not self._breaker.lets_through:
                return End(pending, error="the cloud has not answered for a while and is left alone")
            self._waiting.append(pending)
            if len(self._waiting) <= self.options.queue_size:
                self._loop.call_soon_threadsafe(self._ready.release)
                return None
            impatient = [waiting for waiting in self._waiting if not waiting.waits]
            least = min(reversed(impatient), key=lambda waiting: waiting.verdict.score)
            self._waiting.remove(least)
            return End(least, error="too many hard samples wait for the cloud")

    def _has_room(self) -> bool:
        """Or is there none to wait for?"""
        is_full = len(self._waiting) >= self.options.queue_size
        return not is_full or self._is_closed or not self._breaker.lets_through

    def close(self) -> None:
        """What waits or is on its way ends without an answer."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._room.notify_all()
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        for pending in self._waiting:
            self.on_end(End(pending, error="the worker is ending"))
        self._waiting.clear()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._work())
        finally:
            self._loop.close()

    async def _work(self) -> None:
        limits = httpx.Limits(max_connections=self.options.senders + 1, keepalive_expiry=60)
        async with httpx.AsyncClient(timeout=None, limits=limits, trust_env=False) as client:  # noqa: S113  # see _answer
            tasks = [asyncio.create_task(self._send_all(client)) for _ in range(self.options.senders)]
            tasks.append(asyncio.create_task(self._probe_all(client)))
            await self._stopping.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _send_all(self, client: httpx.AsyncClient) -> None:
        while True:
            await self._ready.acquire()
            with self._lock:
                pending = self._waiting.pop(0)
                self._room.notify()
            end = End(pending, error="the worker is ending", was_sent=True)
            try:
                end = await self._sent(client, pending)
            except Exception as error:
                logger.exception("Sample %s could not be sent", pending.id)
                end = End(pending, error=f"it could not be sent: {type(error).__name__}: {error}")
            finally:
                self._tell(end)

    async def _sent(self, client: httpx.AsyncClient, pending: Pending) -> End:
        left_s = (time.monotonic() if pending.waits else pending.at) + self.options.deadline_s - time.monotonic()
        if not self._breaker.lets_through:
            return End(pending, error="the cloud has not answered for a while and is left alone")
        if left_s <= 0:
            return End(pending, error="its deadline passed while it waited for a sender")
        try:
            async with asyncio.timeout(left_s):
                cloud = await self._answer(client, pending)
        except TimeoutError:
            return self._failed(pending, f"the cloud did not answer within {self.options.deadline_s:g} s")
        except httpx.HTTPError as error:
            return self._failed(pending, f"the cloud cannot be reached: {error or type(error).__name__}")
        except NoAnswer as error:
            return self._failed(pending, str(error))
        with self._lock:
            self._breaker.succeeded()
        return End(pending, cloud, was_sent=True, ms=(time.monotonic() - pending.at) * 1000)

    async def _answer(self, client: httpx.AsyncClient, pending: Pending) -> Prediction:
        data, content_type = encode(pending.picture, self.options.jpeg_quality)
        meta = json.dumps({"id": pending.id, "shape": shape_of(pending.picture)})
        files: Parts = {"meta": (None, meta, "application/json"), "picture": ("picture", data, content_type)}
        headers = {"Authorization": f"Bearer {self._secret}"}
        request = client.build_request("POST", f"{self.url}/predict", files=files, headers=headers)
        response = await client.send(request, stream=True)
        pending.bytes_up = int(request.headers["Content-Length"])
        try:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise NoAnswer(f"the cloud's answer has more than {MAX_ANSWER_BYTES} bytes")
        finally:
            await response.aclose()
        return prediction_of(response.status_code, bytes(body), pending.edge)

    def _failed(self, pending: Pending, error: str) -> End:
        with self._lock:
            self._breaker.failed(time.monotonic())
            self._room.notify_all()
        return End(pending, error=error, was_sent=True)

    async def _probe_all(self, client: httpx.AsyncClient) -> None:
        while True:
            await asyncio.sleep(min(PROBE_TICK_S, self.options.breaker_pause_s))
            with self._lock:
                is_mine = self._breaker.take_probe(time.monotonic())
            if is_mine:
                is_well = await self._is_well(client)
                with self._lock:
                    self._breaker.probed(time.monotonic(), is_well=is_well)

    async def _is_well(self, client: httpx.AsyncClient) -> bool:
        try:
            async with asyncio.timeout(PROBE_S), client.stream("GET", self.url) as response:
                return response.status_code == 200
        except (TimeoutError, httpx.HTTPError):
            return False

    def _tell(self, end: End) -> None:
        try:
            self.on_end(end)
        except Exception:
            logger.exception("Sample %s has ended, and that could not be taken in", end.pending.id)


def shape_of(picture: Picture) -> list[int]:
    """Height, width, channels."""
    height, width, *rest = picture.shape
    return [height, width, rest[0] if rest else 1]
