"""The newest picture of the job, and the server that shows it to the web server: drawn only for a viewer, or when a
snapshot is due."""

from __future__ import annotations

import asyncio
import hmac
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from app.edge.video.runner.frame_context import CapturedFrame, DagRequirements, Values, render
from app.edge.video.runner.frame_transport import jpeg_bytes
from app.edge.video.runner.resize import Size, resized, size_of
from app.video.model.dag import Reference

SNAPSHOT_WIDTH = 640
SNAPSHOT_S = 5.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PreviewScene:
    """The values of a frame that can be drawn."""

    frame: CapturedFrame
    values: Values
    """Boxes in pixels of `size`."""
    size: Size

    @property
    def number(self) -> int:
        return self.frame.n_loop


@dataclass(frozen=True)
class PreviewPicture:
    number: int
    jpeg: bytes


class PreviewStream:
    """Passes pictures from the drawing thread to viewers in an event loop: each gets the newest picture."""

    def __init__(self) -> None:
        self.newest: PreviewPicture | None = None
        self.viewers = 0
        self.on_viewer: Callable[[], None] = lambda: None
        self._waiting: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def put(self, picture: PreviewPicture) -> None:
        """Publishes a picture. Any thread may call it."""
        self.newest = picture
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    async def newer_than(self, number: int, timeout_s: float) -> PreviewPicture | None:
        """Waits for a picture after this number; None if there was none in that time."""
        self._loop = asyncio.get_running_loop()
        deadline = self._loop.time() + timeout_s
        while self.newest is None or self.newest.number <= number:
            left = deadline - self._loop.time()
            if left <= 0:
                return None
            waiter: asyncio.Future[None] = self._loop.create_future()
            self._waiting.add(waiter)
            await asyncio.wait({waiter}, timeout=min(left, 0.5))
            self._waiting.discard(waiter)
        return self.newest

    def _wake(self) -> None:
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)


class PreviewRenderer:
    """A thread that draws the newest scene."""

    def __init__(self, needs: DagRequirements, live: PreviewStream, snapshot: Callable[[bytes], None]) -> None:
        """
        Args:
            needs: the requirements of the DAG.
            live: gets the pictures while it has viewers.
            snapshot: called with a JPEG, at most SNAPSHOT_WIDTH wide, when one is due.
        """
        self.needs, self.live = needs, live
        self._snapshot = snapshot
        self._scene: PreviewScene | None = None
        self._drawn = self._sent = -1
        self._changed = threading.Condition()
        self._is_over = False
        self._is_due = True
        self._thread = threading.Thread(target=self._run, name="preview", daemon=True)
        live.on_viewer = self.notify

    def start(self) -> None:
        self._thread.start()

    @property
    def has_scene(self) -> bool:
        return self._scene is not None

    def show(self, scene: PreviewScene) -> None:
        with self._changed:
            self._scene = scene
            self._changed.notify_all()

    def notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def due(self) -> None:
        """Requests that the next scene is sent as a snapshot."""
        with self._changed:
            self._is_due = True
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(5)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_over or self._has_work())
                if self._is_over:
                    return
                scene, is_due = self._scene, self._is_due
            assert scene is not None
            try:
                self._render(scene, is_due=is_due and scene.number > self._sent)
            except Exception:
                logger.exception("Frame %s cannot be drawn", scene.number)
            self._drawn = scene.number

    def _has_work(self) -> bool:
        if self._scene is None:
            return False
        is_new = self._scene.number > self._drawn
        return (self.live.viewers > 0 and is_new) or (self._is_due and self._scene.number > self._sent)

    def _render(self, scene: PreviewScene, *, is_due: bool) -> None:
        self._drawn = scene.number
        if is_due:
            self._sent, self._is_due = scene.number, False
        frame = scene.frame
        picture = render(self.needs, scene.values, self._image(), frame.picture, scene.size)
        if frame.crop is not None and frame.source is not None and size_of(picture) == size_of(frame.picture):
            picture = frame.crop.in_whole(frame.source, picture)
        self.live.put(PreviewPicture(scene.number, jpeg_bytes(picture)))
        if is_due:
            width, height = size_of(picture)
            ratio = min(1.0, SNAPSHOT_WIDTH / width)
            self._snapshot(jpeg_bytes(resized(picture, (round(width * ratio), max(1, round(height * ratio))))))

    def _image(self) -> Reference:
        """Returns the picture to show: the generator's if the DAG has no Render."""
        return self.needs.image or self.needs.picture


MOST_VIEWERS = 20
FIRST_S = 5.0
AGAIN_S = 5.0
"""Seconds without a newer picture after which the last one is sent again: a viewer sees that the job is alive."""
BOUNDARY = "frame"


def application(
    uid: str,
    secret: Callable[[], str],
    live: PreviewStream,
    *,
    is_ready: Callable[[], bool],
    health: Callable[[], Mapping[str, Any]],
) -> Starlette:
    """Creates the ASGI application of a runner.

    Args:
        uid: the id of its job.
        secret: returns the current bearer token of viewers.
        live: the job's pictures.
        is_ready: returns whether there is anything to draw.
        health: returns the answer to GET /healthz.
    """

    async def healthz(_: Request) -> Response:
        return JSONResponse(dict(health()))

    async def video(request: Request) -> Response:
        authorization = request.headers.get("authorization", "")
        if not hmac.compare_digest(authorization.encode(), f"Bearer {secret()}".encode()):
            return _refused("This needs the job's secret.", 401)
        if request.path_params["uid"] != uid:
            return _refused(f"This runner has no job {request.path_params['uid'][:100]}.", 404)
        if live.viewers >= MOST_VIEWERS:
            return _refused(f"There are {MOST_VIEWERS} viewers already.", 429)
        if not is_ready():
            return _refused("There is no picture yet.", 503)
        return StreamingResponse(_parts(live), media_type=f"multipart/x-mixed-replace; boundary={BOUNDARY}")

    return Starlette(routes=[Route("/healthz", healthz), Route("/user/video/{uid}", video)])


async def _parts(live: PreviewStream) -> AsyncIterator[bytes]:
    """Yields the newest picture, then each newer one; a slow viewer misses some."""
    live.viewers += 1
    try:
        live.on_viewer()
        number = -1
        picture = await live.newer_than(number, FIRST_S)
        while True:
            if picture is not None:
                number = picture.number
                yield _part(picture.jpeg)
            picture = await live.newer_than(number, AGAIN_S) or live.newest
    finally:
        live.viewers -= 1


def _part(jpeg: bytes) -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
    return head.encode() + jpeg + b"\r\n"


def _refused(text: str, status: int) -> Response:
    return JSONResponse({"status": 1, "error": text}, status_code=status)
