"""The newest picture of the job, and the server that shows it to the web: drawn only while somebody looks at it, or
when a snapshot is due.
"""

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

from app.edge.video.runner.frame_context import DagRequirements, Values, rendered
from app.edge.video.runner.frame_transport import jpeg_bytes
from app.edge.video.runner.resize import Size, resized, size_of
from app.inference.prediction import Picture
from app.video.model.dag import Reference

SNAPSHOT_WIDTH = 640
SNAPSHOT_S = 5.0
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Scene:
    """What can be drawn. values: in pixels of `size`; source: the frame as it came."""

    number: int
    source: Picture
    values: Values
    size: Size


@dataclass(frozen=True)
class Shown:
    number: int
    jpeg: bytes


class Live:
    """Viewers wait in an event loop for newer pictures; who draws is a thread. Each gets the newest there is."""

    def __init__(self) -> None:
        self.newest: Shown | None = None
        self.viewers = 0
        self.on_viewer: Callable[[], None] = lambda: None
        self._waiting: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def put(self, shown: Shown) -> None:
        """By any thread."""
        self.newest = shown
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake)

    async def newer_than(self, number: int, timeout_s: float) -> Shown | None:
        """None when there was none in that time."""
        self._loop = asyncio.get_running_loop()
        deadline = self._loop.time() + timeout_s
        while self.newest is None or self.newest.number <= number:
            left = deadline - self._loop.time()
            if left <= 0:
                return None
            turn: asyncio.Future[None] = self._loop.create_future()
            self._waiting.add(turn)
            await asyncio.wait({turn}, timeout=min(left, 0.5))
            self._waiting.discard(turn)
        return self.newest

    def _wake(self) -> None:
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)


class PreviewRenderer:
    """A thread that draws the newest scene. snapshot: given a JPEG of at most SNAPSHOT_WIDTH every SNAPSHOT_S."""

    def __init__(self, needs: DagRequirements, live: Live, snapshot: Callable[[bytes], None]) -> None:
        self.needs, self.live = needs, live
        self._snapshot = snapshot
        self._scene: Scene | None = None
        self._drawn = self._sent = -1
        self._changed = threading.Condition()
        self._is_over = False
        self._is_due = True
        self._thread = threading.Thread(target=self._run, name="painter", daemon=True)
        live.on_viewer = self.look_again

    def start(self) -> None:
        self._thread.start()

    @property
    def has_scene(self) -> bool:
        return self._scene is not None

    def show(self, scene: Scene) -> None:
        with self._changed:
            self._scene = scene
            self._changed.notify_all()

    def look_again(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def due(self) -> None:
        """The next scene is to be sent as a snapshot."""
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
                self._paint(scene, is_due=is_due and scene.number > self._sent)
            except Exception:
                logger.exception("Frame %s cannot be drawn", scene.number)
            self._drawn = scene.number

    def _has_work(self) -> bool:
        if self._scene is None:
            return False
        is_new = self._scene.number > self._drawn
        return (self.live.viewers > 0 and is_new) or (self._is_due and self._scene.number > self._sent)

    def _paint(self, scene: Scene, *, is_due: bool) -> None:
        self._drawn = scene.number
        if is_due:
            self._sent, self._is_due = scene.number, False
        picture = rendered(self.needs, scene.values, self._image(), scene.source, scene.size)
        self.live.put(Shown(scene.number, jpeg_bytes(picture)))
        if is_due:
            width, height = size_of(picture)
            ratio = min(1.0, SNAPSHOT_WIDTH / width)
            self._snapshot(jpeg_bytes(resized(picture, (round(width * ratio), max(1, round(height * ratio))))))

    def _image(self) -> Reference:
        """Without Render the picture is the generator's."""
        return self.needs.image or self.needs.picture


MOST_VIEWERS = 20
FIRST_S = 5.0
AGAIN_S = 5.0
"""After so long without a newer picture the last is sent once more: a viewer sees that somebody is there."""
BOUNDARY = "frame"


def application(
    uid: str,
    secret: Callable[[], str],
    live: Live,
    *,
    is_ready: Callable[[], bool],
    health: Callable[[], Mapping[str, Any]],
) -> Starlette:
    """is_ready: is there anything to be drawn? health: what GET /healthz answers."""

    async def healthz(_: Request) -> Response:
        return JSONResponse(dict(health()))

    async def video(request: Request) -> Response:
        given, wanted = request.headers.get("authorization", ""), f"Bearer {secret()}"
        if not hmac.compare_digest(given.encode(), wanted.encode()):
            return _refused("This needs the job's secret.", 401)
        if request.path_params["uid"] != uid:
            return _refused(f"This runner has no job {request.path_params['uid'][:100]}.", 404)
        if live.viewers >= MOST_VIEWERS:
            return _refused(f"There are {MOST_VIEWERS} viewers already.", 429)
        if not is_ready():
            return _refused("There is no picture yet.", 503)
        return StreamingResponse(_parts(live), media_type=f"multipart/x-mixed-replace; boundary={BOUNDARY}")

    return Starlette(routes=[Route("/healthz", healthz), Route("/user/video/{uid}", video)])


async def _parts(live: Live) -> AsyncIterator[bytes]:
    """The newest picture, then each newer one; who is slow to take them misses those between."""
    live.viewers += 1
    try:
        live.on_viewer()
        number = -1
        shown = await live.newer_than(number, FIRST_S)
        while True:
            if shown is not None:
                number = shown.number
                yield _part(shown.jpeg)
            shown = await live.newer_than(number, AGAIN_S) or live.newest
    finally:
        live.viewers -= 1


def _part(jpeg: bytes) -> bytes:
    head = f"--{BOUNDARY}\r\nContent-Type: image/jpeg\r\nContent-Length: {len(jpeg)}\r\n\r\n"
    return head.encode() + jpeg + b"\r\n"


def _refused(text: str, status: int) -> Response:
    return JSONResponse({"status": 1, "error": text}, status_code=status)
