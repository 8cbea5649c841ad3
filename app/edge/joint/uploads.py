"""Sends hard samples to the big model: a bounded queue, a few senders in one thread, a deadline, and the breaker.

Offering a sample never blocks, except for one that asks to wait, and only while the cloud answers. The result of each
sample is reported once, from this thread; whatever the cloud does, a sender is released at its sample's deadline.
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

from app.edge.joint.byte_budget import ByteBudget
from app.edge.joint.cloud_answer import InvalidAnswer, prediction_of
from app.edge.joint.outcome import OpenSample
from app.edge.joint.request_pictures import shape_of
from app.edge.joint.upload_policy import ProbedBreaker
from app.inference.picture_codec import encode
from app.inference.prediction import Prediction
from app.joint_inference.model.content import BigModel
from app.joint_inference.model.tally import Breaker
from app.joint_inference.worker_options import EdgeOptions
from app.kit.clock import now
from app.kit.network.tls import Credentials, tls_name

MAX_ANSWER_BYTES = 1 << 20
Parts = dict[str, tuple[str | None, bytes | str, str]]
LEFT_ALONE = "the cloud has not answered for a while and is left alone"
LATE = "its deadline passed while it waited for a sender"
PROBE_S = 2.0
PROBE_TICK_S = 0.2
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CloudLink:
    """What an encrypted link to the big model takes."""

    credentials: Credentials
    node: str
    """The node of the big model, whose name its certificate must have."""


@dataclass(frozen=True)
class UploadResult:
    """What became of one offered sample."""

    pending: OpenSample
    cloud: Prediction | None = None
    """The big model's answer; None: there is none, see `error`."""
    model: object = None
    """Name on the card of the big model, as its answer has it."""
    error: str = ""
    """Why there is no answer."""
    was_sent: bool = False
    """Whether it was on its way to the cloud."""
    is_over_budget: bool = False
    """Whether the byte budget held it back."""
    ms: float | None = None
    """From the queue to the answer."""


class Uploads:
    """The queue of hard samples of one service and its senders. For any thread.

    Args:
        service: name, as the big model has it.
        on_result: called with each result, by a thread of the senders.
        link: how an encrypted link to the big model is made; None: there is no certificate for one.
    """

    def __init__(
        self,
        big_model: BigModel,
        service: str,
        options: EdgeOptions,
        on_result: Callable[[UploadResult], None],
        *,
        link: CloudLink | None = None,
        budget: ByteBudget | None = None,
    ) -> None:
        self.url = f"{big_model.url.rstrip('/')}/{service}"
        self.options = options
        self.on_result = on_result
        self._secret = big_model.secret
        self._link = link
        self._budget = budget or ByteBudget(0, 0, None)
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._breaker = ProbedBreaker(errors=options.breaker_errors, pause_s=options.breaker_pause_s)
        self._waiting: list[OpenSample] = []
        self._loop = asyncio.new_event_loop()
        self._ready = asyncio.Semaphore(0)
        self._stopping = asyncio.Event()
        self._is_accepting = True
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="uploads", daemon=True)
        self._thread.start()

    @property
    def _names(self) -> dict[str, str]:
        return {"sni_hostname": tls_name(self._link.node)} if self._link else {}

    @property
    def breaker(self) -> Breaker:
        return self._breaker.state

    def offer(self, pending: OpenSample) -> UploadResult | None:
        """Queue a sample.

        Returns:
            None: it is queued. Else what has no place, this sample or the least hard of the queue, and why.
        """
        with self._lock:
            if pending.waits:
                self._room.wait_for(self._has_room)
            if not self._is_accepting:
                return UploadResult(pending, error="the worker is ending")
            if not self._breaker.lets_through:
                return UploadResult(pending, error=LEFT_ALONE)
            self._waiting.append(pending)
            if len(self._waiting) <= self.options.queue_size:
                self._loop.call_soon_threadsafe(self._ready.release)
                return None
            impatient = [waiting for waiting in self._waiting if not waiting.waits]
            easiest = min(reversed(impatient), key=lambda waiting: waiting.verdict.score)
            self._waiting.remove(easiest)
            return UploadResult(easiest, error="too many hard samples wait for the cloud")

    def _has_room(self) -> bool:
        """Also true when waiting would be in vain."""
        is_full = len(self._waiting) >= self.options.queue_size
        return not is_full or not self._is_accepting or not self._breaker.lets_through

    def stop_accepting(self) -> None:
        """Reject what waits for a place in the queue, and whatever is offered from now on."""
        with self._lock:
            self._is_accepting = False
            self._room.notify_all()

    def close(self) -> None:
        """End all samples that are queued or on their way without an answer."""
        self.stop_accepting()
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()
        for pending in self._waiting:
            self.on_result(UploadResult(pending, error="the worker is ending"))
        self._waiting.clear()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._work())
        finally:
            self._loop.close()

    async def _work(self) -> None:
        limits = httpx.Limits(max_connections=self.options.senders + 1, keepalive_expiry=60)
        verify = self._link.credentials.client if self._link else True
        async with httpx.AsyncClient(timeout=None, limits=limits, trust_env=False, verify=verify) as client:  # noqa: S113  # see _answer
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
            result = UploadResult(pending, error="the worker is ending", was_sent=True)
            try:
                result = await self._send(client, pending)
            except Exception as error:  # whatever it is, the sample gets a result
                logger.exception("Sample %s could not be sent", pending.id)
                result = UploadResult(pending, error=f"it could not be sent: {type(error).__name__}: {error}")
            finally:
                self._report(result)

    async def _send(self, client: httpx.AsyncClient, pending: OpenSample) -> UploadResult:
        remaining_s = (time.monotonic() if pending.waits else pending.at) + self.options.deadline_s - time.monotonic()
        if not self._breaker.lets_through or remaining_s <= 0:
            is_late = self._breaker.lets_through
            return UploadResult(pending, error=LATE if is_late else LEFT_ALONE)
        try:
            async with asyncio.timeout(remaining_s):
                cloud, model = await self._answer(client, pending)
        except TimeoutError:
            return self._make_failed(pending, f"the cloud did not answer within {self.options.deadline_s:g} s")
        except httpx.HTTPError as error:
            return self._make_failed(pending, f"the cloud cannot be reached: {error or type(error).__name__}")
        except InvalidAnswer as error:
            return self._make_failed(pending, str(error))
        except OverBudget as error:
            return UploadResult(pending, error=str(error), is_over_budget=True)
        with self._lock:
            self._breaker.succeeded()
        return UploadResult(pending, cloud, model, was_sent=True, ms=(time.monotonic() - pending.at) * 1000)

    async def _answer(self, client: httpx.AsyncClient, pending: OpenSample) -> tuple[Prediction, object]:
        """Returns the big model's prediction, and what it tells as its name."""
        data, content_type = encode(pending.picture, self.options.jpeg_quality)
        meta = json.dumps({"id": pending.id, "shape": shape_of(pending.picture)})
        files: Parts = {"meta": (None, meta, "application/json"), "picture": ("picture", data, content_type)}
        headers = {"Authorization": f"Bearer {self._secret}"}
        request = client.build_request(
            "POST", f"{self.url}/predict", files=files, headers=headers, extensions=self._names
        )
        size = int(request.headers["Content-Length"])
        reason = self._budget.take(size, at=time.monotonic(), now=now())
        if reason:
            raise OverBudget(reason)
        response = await client.send(request, stream=True)
        pending.bytes_up = size
        try:
            body = bytearray()
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise InvalidAnswer(f"the cloud's answer has more than {MAX_ANSWER_BYTES} bytes")
        finally:
            await response.aclose()
        return prediction_of(response.status_code, bytes(body), pending.edge)

    def _make_failed(self, pending: OpenSample, error: str) -> UploadResult:
        with self._lock:
            self._breaker.failed(time.monotonic())
            self._room.notify_all()
        return UploadResult(pending, error=error, was_sent=True)

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
            async with asyncio.timeout(PROBE_S), client.stream("GET", self.url, extensions=self._names) as response:
                return response.status_code == 200
        except (TimeoutError, httpx.HTTPError):
            return False

    def _report(self, result: UploadResult) -> None:
        try:
            self.on_result(result)
        except Exception:  # one sample's fault must not stop the others
            logger.exception("Sample %s has ended, and its result could not be processed", result.pending.id)


class OverBudget(Exception):
    """The byte budget does not allow this upload. Its text is the reason."""
