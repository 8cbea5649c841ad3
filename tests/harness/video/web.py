"""A web with nodes, stages and jobs put into its database, and servers in the place of those that nodes run. One serves
all tests of a file: see VideoWeb.empty."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from pydantic import SecretStr
from starlette.applications import Starlette

from app.bootstrap.container import Container
from app.kit.clock import now
from app.kit.sql import metadata
from app.main import create_app
from app.nodes.model import Side
from app.settings import Settings
from app.video.model.job import VideoJob
from app.video.service import Video
from tests.harness.migrated import migrated_data
from tests.harness.valkey import Valkey
from tests.harness.video.records import running_video, video_nodes
from tests.harness.web import served


class VideoWeb:
    """Nobody has to sign in. With `running` come edge0 with its two videos, cloud0, and the two stages of faces.

    client: of the local user."""

    def __init__(self, app: Starlette, settings: Settings, url: str, client: httpx.Client) -> None:
        self.app = app
        self.settings = settings
        self.url = url
        self.client = client
        self.user = settings.local_user
        self.container: Container = app.state.container
        self.video: Video = self.container.video

    def empty(self) -> None:
        """As it was when it had been started."""
        emptied(self.container)
        self.client.cookies.clear()

    def running(self, owner: str = "") -> VideoJob:
        job = running_video(self.video, owner or self.user, now=now())
        self.video.controller.reconcile("", now=now())
        return job

    def alive(self) -> None:
        """Nodes and videos, and no job."""
        video_nodes(self.video.resources.nodes, now=now())

    def token(self, node: str) -> str:
        """A new one."""
        registered = self.container.nodes.find(node)
        side = registered.side if registered else Side.EDGE
        return str(self.container.nodes.register(node, side, now=now(), replace=True)[1])


@contextmanager
def video_web(folder: Path, valkey: Valkey) -> Iterator[VideoWeb]:
    settings = settings_in(folder, valkey)
    migrated_data(settings)
    app = create_app(settings)
    app.state.container.prepare()
    with served(app) as url, httpx.Client(base_url=url, trust_env=False) as client:
        yield VideoWeb(app, settings, url, client)


def settings_in(folder: Path, valkey: Valkey) -> Settings:
    """Of a web that has its things in that folder, and in a Valkey that it shares with nobody at the same time."""
    return Settings(
        data_dir=folder / "data", redis_url=valkey.url(0), node_name="here", secret_key=SecretStr("a secret")
    )


def emptied(container: Container) -> None:
    """No row but the local user, no object and nothing in its Valkey."""
    with container.database.write() as conn:
        for table in reversed(metadata.sorted_tables):
            conn.execute(table.delete())
    for kept in list(container.objects.list("")):
        container.objects.delete(kept.key)
    container.redis.flushall()
    container.prepare()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
