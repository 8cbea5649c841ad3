"""A web with nodes, stages and jobs put into its database, and servers in the place of those that nodes run."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette

from app.kit.clock import now
from app.main import create_app
from app.nodes.model import Side
from app.settings import Settings
from app.video.model.job import VideoJob
from app.video.service import Video
from tests.harness.ports import free_port
from tests.harness.video.records import running_video, video_nodes


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Its address, as long as it serves. The server's thread ends with it."""
    port = free_port()
    config = uvicorn.Config(app, port=port, log_config=None, ws="websockets-sansio", timeout_graceful_shutdown=3)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


class VideoWeb:
    """Nobody has to sign in. With `running` come edge0 with its two videos, cloud0, and the two stages of faces."""

    def __init__(self, app: Starlette, settings: Settings, url: str) -> None:
        self.app = app
        self.url = url
        self.user = settings.local_user
        self.parts = app.state.parts
        self.video: Video = self.parts.video

    def running(self, owner: str = "") -> VideoJob:
        job = running_video(self.video, owner or self.user, now=now())
        self.video.controller.reconcile("", now=now())
        return job

    def alive(self) -> None:
        """Nodes and videos, and no job."""
        video_nodes(self.video.resources.nodes, now=now())

    def token(self, node: str) -> str:
        """A new one."""
        found = self.parts.nodes.find(node)
        side = found.side if found else Side.EDGE
        return str(self.parts.nodes.register(node, side, now=now(), replace=True)[1])


@contextmanager
def video_web(settings: Settings) -> Iterator[tuple[VideoWeb, httpx.Client]]:
    app = create_app(settings)
    app.state.parts.prepare()
    with served(app) as url, httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
        yield VideoWeb(app, settings, url), client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
