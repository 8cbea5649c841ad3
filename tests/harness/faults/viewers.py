"""People who look at the page of a job: event streams that reconnect by themselves, as a browser's EventSource does."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import httpx
from modelmill_client.event_stream import EventParser

AGAIN_S = 0.2


@dataclass
class Viewer:
    """seen: (number of the connection, event, data) in the order of arrival."""

    seen: list[tuple[int, str, dict[str, Any]]] = field(default_factory=list)
    connections: int = 0
    cut_off: int = 0
    """How many streams broke in the middle of their answer."""
    is_over: bool = False

    def last(self) -> dict[str, Any]:
        return self.seen[-1][2]

    def first_after(self, connections: int) -> dict[str, Any]:
        """What was shown first once it was back after so many connections."""
        return next(data for number, _, data in self.seen if number > connections)


class Viewers:
    """A crowd in a thread of its own. reconnects: whether they come back when a stream ends."""

    def __init__(self, url: str, job_id: str, count: int, *, reconnects: bool = True) -> None:
        self.url = f"{url}/jobs/{job_id}/events"
        self.crowd = [Viewer() for _ in range(count)]
        self.reconnects = reconnects
        self._runner = asyncio.Runner()
        self._loop = self._runner.get_loop()
        self._crowd_task: asyncio.Future[Any] | None = None
        self._has_begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Viewers:
        self._thread.start()
        self._has_begun.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(RuntimeError):  # they have all gone by themselves
            self._loop.call_soon_threadsafe(self._stop)
        self._thread.join()

    def all_see(self, **expected: Any) -> bool:
        """Was this the last thing that each of them was shown?"""
        return all(v.seen and expected.items() <= v.last().items() for v in self.crowd)

    def are_gone(self) -> bool:
        return all(viewer.is_over for viewer in self.crowd)

    def _stop(self) -> None:
        """The crowd alone, and not the task of the client, which may be closing its connections: those it has not come
        to would stay open."""
        if self._crowd_task is not None:
            self._crowd_task.cancel()

    def _run(self) -> None:
        with self._runner:
            self._runner.run(self._watch_all())

    async def _watch_all(self) -> None:
        limits = httpx.Limits(max_connections=None)
        # Without a time-out: anyio forgets, and does not close, what is connected in the moment in which it is up.
        async with httpx.AsyncClient(timeout=None, limits=limits) as client:
            self._crowd_task = asyncio.gather(*(self._watch(client, viewer) for viewer in self.crowd))
            self._has_begun.set()
            with contextlib.suppress(asyncio.CancelledError):
                await self._crowd_task

    async def _watch(self, client: httpx.AsyncClient, viewer: Viewer) -> None:
        while not viewer.is_over:
            has_begun = False
            try:
                async with client.stream("GET", self.url) as answer:
                    if answer.status_code == 200:
                        has_begun = True
                        viewer.connections += 1
                        await self._read(answer, viewer)
            except httpx.TransportError:  # before the answer began: it met a web on its way down, or up
                viewer.cut_off += has_begun
            if not self.reconnects:
                viewer.is_over = True
            elif not viewer.is_over:
                await asyncio.sleep(AGAIN_S)

    @staticmethod
    async def _read(answer: httpx.Response, viewer: Viewer) -> None:
        parser = EventParser()
        async for line in answer.aiter_lines():
            if (whole := parser.feed(line)) is not None:
                event, data = whole
                viewer.seen.append((viewer.connections, event, json.loads(data)))
                viewer.is_over = event in {"done", "gone"}
