"""A web that does what a test tells it: registers nodes, sends orders, hears reports. A real server on a real port."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.nodes import wire
from app.nodes.model import NodeReport, Operation, Order, WorkerReport, WorkKey
from tests.harness.agent.program import KIND
from tests.harness.ports import free_port
from tests.harness.until import until
from tests.harness.web import Server

TOKEN = "mn_edge0_" + "5" * 64
REPEAT_S = 0.1


class ScriptedWeb:
    def __init__(self) -> None:
        self.port = free_port()
        self.token = TOKEN
        self.is_registered = False
        self.lets_register = True
        self.has_sockets = True
        self.closes_sockets = False
        self.blobs: dict[str, bytes] = {}
        self.breaks_at = 0
        self.ranges: list[str] = []
        self.orders: dict[WorkKey, Order] = {}
        self.signs: list[wire.Heartbeat] = []
        self.posts: list[tuple[str, bytes]] = []
        self.authorizations: list[str] = []
        self.answers: dict[bytes, int] = {}
        self.by: set[str] = set()
        self._waited_for: dict[WorkKey, wire.Heartbeat] = {}
        self._seq = 0
        self._server: uvicorn.Server | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}"

    # what a test tells it
    def order(self, name: str, program: str = "", *, kind: str = KIND, **content: Any) -> WorkKey:
        """With the same name, instead of the one before."""
        return self.tell(WorkKey(kind, f"uid-{name}", "edge"), name, {"program": program, **content})

    def tell(self, key: WorkKey, name: str, content: Mapping[str, Any]) -> WorkKey:
        self._seq += 1
        self.orders[key] = Order(self._seq, "edge0", key, "default", name, Operation.INSERT, self._seq, content)
        return key

    def withdraw(self, key: WorkKey) -> None:
        self._seq += 1
        self.orders[key] = replace(
            self.orders[key], seq=self._seq, operation=Operation.DELETE, content={}, is_acknowledged=False
        )

    def repeat(self) -> None:
        """Everything, as if nothing had been acknowledged."""
        self.orders = {key: replace(order, is_acknowledged=False) for key, order in self.orders.items()}

    def keep(self, data: bytes) -> tuple[str, int]:
        digest = sha256(data).hexdigest()
        self.blobs[digest] = data
        return digest, len(data)

    # what a test sees
    @property
    def report(self) -> NodeReport:
        return self.signs[-1].report if self.signs else NodeReport()

    def worker(self, key: WorkKey) -> WorkerReport | None:
        return _of(self.signs[-1], key) if self.signs else None

    def until(self, key: WorkKey, **expected: Any) -> WorkerReport:
        """The first report of this worker that says that, among those since the one that was last waited for: what
        it passed through in between is not missed."""

        def look() -> WorkerReport | str:
            signs = list(self.signs)
            last = self._waited_for.get(key)
            since = next((number for number, sign in enumerate(signs) if sign is last), 0)
            for sign in signs[since:]:
                worker = _of(sign, key)
                if worker and all(getattr(worker, name) == value for name, value in expected.items()):
                    self._waited_for[key] = sign
                    return worker
            return f"{expected}: {_of(signs[-1], key) if signs else None}"

        worker = until(look, lambda seen: isinstance(seen, WorkerReport))
        assert isinstance(worker, WorkerReport)
        return worker

    # its life
    def start(self) -> None:
        routes = [
            Route("/neptune/nodes", self._register, methods=["POST"]),
            Route("/neptune/link/edge0/messages", self._messages),
            Route("/neptune/link/edge0/{verb:str}", self._hear, methods=["POST"]),
            Route("/neptune/link/edge0/blobs/{sha256}", self._blob),
            Route("/told/{rest:path}", self._told, methods=["POST"]),
            Route("/node/{rest:path}", self._told, methods=["POST"]),
            WebSocketRoute("/neptune/link/edge0/socket", self._socket),
        ]
        config = uvicorn.Config(
            Starlette(routes=routes),
            port=self.port,
            log_config=None,
            lifespan="off",
            timeout_graceful_shutdown=1,
            ws="websockets-sansio",
        )
        self._server = Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        until(lambda: self._server and self._server.started)

    def stop(self) -> None:
        if self._server is not None:
            self._server.should_exit = True
            self._thread.join()
            self._server = None

    # what it serves
    async def _register(self, request: Request) -> Response:
        registration = await request.json()
        if not self.lets_register:
            return _error(401, "UNAUTHORIZED")
        if self.is_registered and not registration["replace"]:
            return _error(409, "NODE_EXISTS")
        self.is_registered = True
        return JSONResponse({"token": self.token}, status_code=201)

    async def _hear(self, request: Request) -> Response:
        if not self._knows(request):
            return _error(401, "UNAUTHORIZED")
        message = wire.read(await request.body())
        is_report = request.path_params["verb"] == "report"
        self._take_in(wire.Heartbeat.from_json(message) if is_report else wire.Acknowledgement.from_json(message))
        return Response(status_code=204)

    async def _messages(self, request: Request) -> Response:
        if not self._knows(request):
            return _error(401, "UNAUTHORIZED")
        self.by.add("poll")
        for _ in range(20):
            if due := self._due():
                return JSONResponse({"messages": due})
            await asyncio.sleep(REPEAT_S)
        return JSONResponse({"messages": []})

    async def _socket(self, socket: WebSocket) -> None:
        if not self.has_sockets or not self._knows(socket):
            await socket.send_denial_response(_error(401 if self.has_sockets else 426, "NO"))
            return
        await socket.accept()
        self.by.add("socket")
        if self.closes_sockets:
            await socket.close()
            return
        sending = asyncio.create_task(self._send(socket))
        with contextlib.suppress(WebSocketDisconnect):
            while True:
                self._take_in(wire.parse_message(wire.read(await socket.receive_text())))
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, socket: WebSocket) -> None:
        while True:
            for frame in self._due():
                await socket.send_text(wire.dump_frame(frame))
            await asyncio.sleep(REPEAT_S)

    async def _blob(self, request: Request) -> Response:
        data = self.blobs.get(request.path_params["sha256"])
        if not self._knows(request):
            return _error(401, "UNAUTHORIZED")
        if data is None:
            return _error(404, "BLOB_NOT_FOUND")
        range_ = request.headers.get("range", "")
        self.ranges.append(range_)
        if not range_ and self.breaks_at:
            return StreamingResponse(_broken(data[: self.breaks_at]), headers={"Content-Length": str(len(data))})
        if not range_:
            return Response(data)
        start = int(range_.removeprefix("bytes=").removesuffix("-"))
        return Response(data[start:], status_code=206)

    async def _told(self, request: Request) -> Response:
        body = await request.body()
        status = self.answers.get(body, 200)
        self.posts.append((request.url.path, body))
        self.authorizations.append(request.headers.get("authorization", ""))
        return Response(status_code=status)

    def _due(self) -> list[dict[str, Any]]:
        due = [order for order in self.orders.values() if not order.is_acknowledged]
        return [wire.order_frame(order) for order in sorted(due, key=lambda order: order.seq)]

    def _take_in(self, message: wire.Acknowledgement | wire.Heartbeat) -> None:
        if isinstance(message, wire.Heartbeat):
            self.signs.append(message)
            return
        for key, order in list(self.orders.items()):
            if order.seq in message.seqs:
                self.orders[key] = replace(order, is_acknowledged=True)

    def _knows(self, request: Request | WebSocket) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.token}"


def _of(sign: wire.Heartbeat, key: WorkKey) -> WorkerReport | None:
    return next((worker for worker in sign.report.workers if worker.key == key), None)


async def _broken(data: bytes) -> AsyncIterator[bytes]:
    """The beginning of a file, whose end never comes."""
    yield data
    raise ConnectionResetError


def _error(status: int, code: str) -> JSONResponse:
    return JSONResponse({"error": {"code": code, "message": "No."}}, status_code=status)


@contextlib.contextmanager
def scripted_web() -> Iterator[ScriptedWeb]:
    web = ScriptedWeb()
    web.start()
    try:
        yield web
    finally:
        web.stop()
