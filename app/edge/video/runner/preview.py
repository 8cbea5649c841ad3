"""The newest picture of the job: drawn only when somebody looks at it, or a snapshot is due."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from app.edge.video.runner.dag_requirements import DagRequirements
from app.edge.video.runner.frame_context import Values, rendered
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
