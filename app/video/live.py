"""The live picture of a job: one connection to its runner, however many viewers.

A Feed receives the runner's MJPEG or, if that is unavailable, the job's snapshots, and keeps only the newest picture.
Each viewer waits for a newer picture than its last one, so a slow one skips some without affecting others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from app.kit.clock import now
from app.kit.errors import ModelmillError, NotFound, TooMany
from app.kit.web.auth import authenticator_of, caller_of
from app.kit.web.mjpeg import CONTENT_TYPE, FIRST, BadParts, PartReader, part_of
from app.kit.web.shutdown import is_ending
from app.kit.web.state import AppState
from app.video.errors import NoPicture
from app.video.model.job import JobState
from app.video.service import Video
from app.video.service.pictures import LiveStream

if TYPE_CHECKING:
    import httpx

MAX_VIEWERS = 20
"""Viewers of a job, in this process."""
FIRST_WITHIN_S = 5.0
RETRY_S = 2.5
SNAPSHOT_EVERY_S = 5.0
SLICE_S = 1.0
"""How soon a waiting viewer notices that the server ends."""
HOLDS_S = 3.0
"""How often it is checked whether a viewer may still watch."""
TIMEOUT_S, READ_S = 3.0, 30.0
NO_STORE = {"Cache-Control": "no-store"}
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Source:
    """The sources of one job's pictures. Each may wait for a database, and raises ModelmillError."""

    live: Callable[[], LiveStream | None]
    snapshot: Callable[[], bytes]
    has_ended: Callable[[], bool]


def source_of(video: Video, user: str, uid: str) -> Source:
    return Source(
        lambda: video.pictures.live(user, uid, now=now()),
        lambda: video.pictures.snapshot(user, uid),
        lambda: video.jobs.get(user, uid).state is JobState.DONE,
    )


class Feed:
    """number: of the picture, increasing. is_idle: the last attempt found neither MJPEG nor snapshot. has_ended: the
    job has ended, and this is its last picture."""

    def __init__(self, source: Source) -> None:
        self.viewers = 0
        self.picture = b""
        self.number = 0
        self.is_idle = False
        self.has_ended = False
        self._source = source
        self._news = asyncio.Event()
        self._snapshot_at: float | None = None

    async def run(self) -> None:
        """Runs until cancelled, or until the job has ended."""
        try:
            while True:
                await self._show_upstream()
                if await self._has_ended():
                    await self._show_snapshot()
                    return
                if self._is_snapshot_due():
                    await self._show_snapshot()
                await asyncio.sleep(RETRY_S)
        finally:
            self.has_ended = True
            self._tell()

    async def newer(self, than: int, timeout_s: float) -> bool:
        """Waits for a picture with a greater number; not longer than the feed can bring one."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self.number <= than and not self.has_ended and not (self.is_idle and than == 0):
                    await self._news.wait()
        return self.number > than

    async def _show_upstream(self) -> None:
        """The runner's MJPEG, as long as it arrives."""
        import httpx

        timeout = httpx.Timeout(TIMEOUT_S, read=READ_S)
        try:
            live = await run_in_threadpool(self._source.live)
            if live is None:
                return
            headers = {"Authorization": f"Bearer {live.secret}"}
            async with (
                httpx.AsyncClient(timeout=timeout, trust_env=False) as http,
                http.stream("GET", live.url, headers=headers) as answer,
            ):
                if answer.status_code == httpx.codes.OK:
                    await self._take(answer, PartReader.of(answer.headers.get("content-type", "")))
        except (httpx.HTTPError, httpx.InvalidURL, BadParts, ModelmillError) as error:
            logger.debug("There is no live picture for now: %s", error)

    async def _take(self, answer: httpx.Response, reader: PartReader) -> None:
        async for chunk in answer.aiter_raw():
            pictures = reader.feed(chunk)
            if pictures:
                self._publish(pictures[-1])

    async def _has_ended(self) -> bool:
        try:
            return await run_in_threadpool(self._source.has_ended)
        except NotFound:
            return True
        except ModelmillError:
            return False

    def _is_snapshot_due(self) -> bool:
        clock = asyncio.get_running_loop().time()
        return self._snapshot_at is None or clock - self._snapshot_at >= SNAPSHOT_EVERY_S

    async def _show_snapshot(self) -> None:
        try:
            self._publish(await run_in_threadpool(self._source.snapshot))
            self._snapshot_at = asyncio.get_running_loop().time()
        except ModelmillError as error:
            logger.debug("There is no snapshot for now: %s", error)
            self.is_idle = not self.picture
            self._tell()

    def _publish(self, picture: bytes) -> None:
        self.picture, self.is_idle = picture, False
        self.number += 1
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class LiveHub:
    """The feeds of this process. For the event loop."""

    def __init__(self) -> None:
        self._feeds: dict[str, tuple[Feed, asyncio.Task[None]]] = {}

    def join(self, uid: str, source: Source) -> Feed:
        """Starts watching a job; `leave` it in any case.

        Raises:
            TooMany: It has as many viewers as it may.
        """
        feed, task = self._feeds.get(uid) or self._begin(uid, source)
        if task.done():
            feed, task = self._begin(uid, source)
        if feed.viewers >= MAX_VIEWERS:
            raise TooMany(f"{MAX_VIEWERS} look at this job already.", hint="Look at its snapshot, or later.")
        feed.viewers += 1
        return feed

    def leave(self, uid: str, feed: Feed) -> None:
        """When its last viewer leaves, the connection to the runner is closed."""
        feed.viewers -= 1
        known = self._feeds.get(uid)
        if known is not None and known[0] is feed and feed.viewers == 0:
            del self._feeds[uid]
            known[1].cancel()

    def _begin(self, uid: str, source: Source) -> tuple[Feed, asyncio.Task[None]]:
        feed = Feed(source)
        self._feeds[uid] = feed, asyncio.create_task(feed.run())
        return self._feeds[uid]


live_hub_of = AppState("video_live", LiveHub)
"""For the event loop."""


class LiveResponse(StreamingResponse):
    """Leaves the feed however the response ends."""

    def __init__(self, parts: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__(parts, media_type=CONTENT_TYPE, headers=NO_STORE)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


async def live_answer(request: Request, video: Video, user: str, uid: str) -> Response:
    """Returns the job's pictures as MJPEG.

    Args:
        user: the viewer.
        uid: the job.

    Raises:
        VideoJobNotFound: It is not this user's, either.
        TooMany: The maximum number of viewers is reached.
        NoPicture: None arrives soon.
    """
    await run_in_threadpool(video.jobs.get, user, uid)
    if request.method == "HEAD":
        return Response(media_type=CONTENT_TYPE, headers=NO_STORE)
    hub = live_hub_of(request)
    feed = hub.join(uid, source_of(video, user, uid))
    is_ready = False
    try:
        is_ready = await feed.newer(0, FIRST_WITHIN_S)
    finally:
        if not is_ready:
            hub.leave(uid, feed)
    if not is_ready:
        raise NoPicture("There is no picture of this job yet.", hint="It comes with the first frame; look again soon.")
    authenticator = authenticator_of(request)
    holds = (lambda: bool(authenticator.still_holds(request))) if caller_of(request).token_id else None
    return LiveResponse(_stream_parts(feed, holds), lambda: hub.leave(uid, feed))


async def _stream_parts(feed: Feed, holds: Callable[[], bool] | None) -> AsyncIterator[bytes]:
    """Ends with the job, with this server, or when the viewer may no longer watch."""
    clock = asyncio.get_running_loop().time
    seen, asked_at = 0, clock()
    yield FIRST
    while not is_ending():
        if await feed.newer(seen, SLICE_S):
            seen = feed.number
            yield part_of(feed.picture)
        elif feed.has_ended:
            return
        if holds is not None and clock() - asked_at > HOLDS_S:
            asked_at = clock()
            if not await run_in_threadpool(holds):
                return
