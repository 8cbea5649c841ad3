"""The newest picture of the job: drawn only for a viewer, or when a snapshot is due."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from app.edge.media.paced_thread import SceneThread
from app.edge.media.picture_sizes import Size, resize_picture, size_of
from app.edge.video.runner.frame_context import CapturedFrame, DagRequirements, Values, render
from app.edge.video.runner.frame_transport import jpeg_bytes
from app.inference.prediction import Picture

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


def draw_scene(needs: DagRequirements, scene: PreviewScene) -> Picture:
    """Returns the picture of a scene, as it is shown: the generator's if the DAG has no Render."""
    frame = scene.frame
    picture = render(needs, scene.values, needs.image or needs.picture, frame.picture, scene.size)
    if frame.crop is not None and frame.source is not None and size_of(picture) == size_of(frame.picture):
        picture = frame.crop.in_whole(frame.source, picture)
    return picture


class PreviewStream:
    """Passes pictures from the drawing thread to viewers in an event loop: each gets the newest picture."""

    def __init__(self) -> None:
        self.newest: PreviewPicture | None = None
        self.viewers = 0
        self._on_viewer: Callable[[], None] = lambda: None
        self._waiting: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def on_viewer(self, notify: Callable[[], None]) -> None:
        """Calls this for each new viewer."""
        self._on_viewer = notify

    def add_viewer(self) -> None:
        self.viewers += 1
        self._on_viewer()

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


class PreviewRenderer(SceneThread):
    """Draws the newest scene."""

    def __init__(
        self,
        needs: DagRequirements,
        live: PreviewStream,
        snapshot: Callable[[bytes], None],
        on_scene: Callable[[PreviewScene], None] = lambda _: None,
    ) -> None:
        """
        Args:
            needs: the requirements of the DAG.
            live: gets the pictures while it has viewers.
            snapshot: called with a JPEG, at most SNAPSHOT_WIDTH wide, when one is due.
            on_scene: called with each scene; returns at once.
        """
        super().__init__("preview")
        self.needs, self.live = needs, live
        self._on_scene = on_scene
        self._snapshot = snapshot
        self._scene: PreviewScene | None = None
        self._drawn = self._sent = -1
        self._is_due = True
        live.on_viewer(self.notify)

    @property
    def has_scene(self) -> bool:
        return self._scene is not None

    def show(self, scene: PreviewScene) -> None:
        self._on_scene(scene)
        with self._changed:
            self._scene = scene
            self._changed.notify_all()

    def due(self) -> None:
        """Requests that the next scene is sent as a snapshot."""
        with self._changed:
            self._is_due = True
            self._changed.notify_all()

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
            except Exception:  # one picture's fault must not stop the preview
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
        picture = draw_scene(self.needs, scene)
        self.live.put(PreviewPicture(scene.number, jpeg_bytes(picture)))
        if is_due:
            width, height = size_of(picture)
            ratio = min(1.0, SNAPSHOT_WIDTH / width)
            self._snapshot(jpeg_bytes(resize_picture(picture, (round(width * ratio), max(1, round(height * ratio))))))
