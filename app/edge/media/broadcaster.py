"""Pushes the drawn picture of a stream to the media server of its node, as H.264 over RTSP.

It takes at most MOST_OF_A_CORE, connects again after growing pauses for as long as it runs, and reports what is wrong.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import ClassVar
from urllib.parse import quote

from app.edge.media.paced_thread import PacedThread, S
from app.edge.media.picture_sizes import even_size, resize_picture, size_of
from app.edge.media.rtsp_push import PushFailed, RtspPush
from app.inference.broadcast import Broadcast, BroadcastState
from app.inference.prediction import Picture
from app.kit.backoff import GrowingPause
from app.kit.network.addresses import without_credentials

FLAG = "no_broadcast"
MOST_OF_A_CORE = 0.25
PAUSE = GrowingPause(1.0, 30.0)
"""Seconds between attempts to connect."""
AGAIN_S = 1.0
"""Seconds without a new frame after which the last one is sent again: media servers drop a silent stream."""
NO_SERVER = "the node has no media server; its agent is given one with --media-server"
logger = logging.getLogger(__name__)


class Broadcaster(PacedThread[S]):
    """Broadcasts scenes."""

    FAILING: ClassVar[str] = "It is not broadcast"
    WORKS_AGAIN: ClassVar[str] = "It is broadcast again."

    def __init__(
        self,
        broadcast: Broadcast,
        server: str,
        uid: str,
        draw: Callable[[S], Picture],
        note: Callable[[str], None],
        *,
        owner: str = "job",
    ) -> None:
        """
        Args:
            broadcast: its settings.
            server: the media server's URL, perhaps with user and password; empty: there is none.
            uid: of the job or service, the path of a broadcast without one.
            draw: returns the picture of a scene.
            note: called with the begin and the end of a problem.
            owner: what goes on when there is a problem.
        """
        super().__init__(
            "broadcast", draw, note, fps=broadcast.fps, most_of_a_core=MOST_OF_A_CORE, again_s=AGAIN_S, owner=owner
        )
        self._width = broadcast.width
        self._url = f"{server.rstrip('/')}/{quote(broadcast.path or uid)}" if server else ""
        self._push: RtspPush | None = None
        self._frames = self._connections = 0
        self._pause_s = self._retry_at_s = 0.0

    def start(self) -> None:
        if self._url:
            super().start()
        else:
            self._fail(NO_SERVER)

    @property
    def flags(self) -> list[str]:
        return [FLAG] if self._is_failing else []

    def state(self) -> BroadcastState:
        return BroadcastState(
            url=without_credentials(self._url),
            is_sending=self._push is not None and self._frames > 0 and not self._is_failing,
            frames=self._frames,
            connections=self._connections,
            core_share=round(self._share, 4),
            problem=self._problem,
        )

    def close(self) -> None:
        super().close()
        self._disconnect()

    def _take(self, scene: S, at_s: float) -> float:
        if time.monotonic() < self._retry_at_s:
            return 0.0
        try:
            return self._send(scene, at_s)
        except PushFailed as error:
            self._fail(str(error))
        except Exception as error:  # PyAV raises anything; the push begins anew
            logger.exception("Frame %s cannot be broadcast", scene.number)
            self._fail(type(error).__name__)
        self._disconnect()
        self._pause_s = PAUSE.after(self._pause_s)
        self._retry_at_s = time.monotonic() + self._pause_s
        return 0.0

    def _send(self, scene: S, at_s: float) -> float:
        picture = self._draw(scene)
        push, is_new = self._push, self._push is None
        if push is None:
            push = self._push = RtspPush(self._url, even_size(size_of(picture), self._width))
        spent_s = push.send(resize_picture(picture, push.size), at_s)
        self._frames += 1
        self._connections += is_new
        self._pause_s = 0.0
        self._recover()
        return spent_s

    def _disconnect(self) -> None:
        push, self._push = self._push, None
        if push is not None:
            push.close()
