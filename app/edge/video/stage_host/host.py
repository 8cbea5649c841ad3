"""The process that serves stages on a node: `python -m app.edge.video.stage_host.host`, started by the node's agent."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette

from app.edge.video.stage_host.host_metrics import HostMetrics, MetricsReporter
from app.edge.video.stage_host.http_server import StageServer
from app.edge.video.stage_host.pictures import PictureCache
from app.edge.video.stage_host.pool import StagePool
from app.edge.video.stage_host.served_stages import ServedStages
from app.edge.video.work import LOOK_S, ServicesWork, WatchedWork
from app.edge.work_file import path_from_environment
from app.edge.worker_server import serve
from app.kit.network.tls import Credentials

logger = logging.getLogger(__name__)


class StageHostProgram:
    """What is to be served is read again when the file has changed; address and number of processes are forever."""

    def __init__(self, path: Path) -> None:
        self._watched = WatchedWork(path, ServicesWork.read, is_read=True, unread="What is to be served stays as it is")
        self.work = ServicesWork.read(path)
        served = ServedStages(self.work)
        self.pool = StagePool(max(1, self.work.content.processes))
        self.pictures = PictureCache()
        self.metrics = HostMetrics(self.pool, lambda: sorted(self.server.served.stages))
        self.server = StageServer(
            self.pool, self.pictures, self.metrics, served, self.work.content.secret, self.work.node
        )
        self._tls = Credentials.from_json(self.work.tls)
        self.reporter = MetricsReporter(self.metrics, self.work.agent_url, self.work.node, self._tls)

    def run(self) -> None:
        serve(
            self.server.application(self._run_lifespan),
            host=self.work.host,
            port=self.work.port,
            lifespan=True,
            tls=self._tls if self.work.is_encrypted else None,
        )

    @asynccontextmanager
    async def _run_lifespan(self, _: Starlette) -> AsyncIterator[None]:
        await self._apply(self.work)
        self.pool.start()
        self.reporter.start()
        if self._tls is not None:
            self._tls.watch()
        watching = asyncio.create_task(self._look())
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            await self.reporter.close()
            await self.pool.close()
            self.pictures.close()

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                work = self._watched.changed()
                if work is not None:
                    await self._apply(work)
            except Exception:  # a fault in one order must not stop the host
                logger.exception("What is to be served cannot be taken on")

    async def _apply(self, work: ServicesWork) -> None:
        self.server.served = served = ServedStages(work)
        self.server.secret = work.content.secret
        self.reporter.peers = work.content.peers
        self.metrics.know(work.content.peers)
        await self.pool.serve(served.ids, set(served.stages))
        logger.info("Stages served", extra={"stages": ", ".join(served.stages) or "none"})


if __name__ == "__main__":
    StageHostProgram(path_from_environment()).run()
