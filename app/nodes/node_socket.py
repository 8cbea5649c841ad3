"""The WebSocket of a node: it sends orders until each is acknowledged, and receives reports.

It ends if its node is silent, is removed, has a new token or another connection, or sends invalid frames; the close
code gives the reason, and whether the node should reconnect.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import redis
from starlette.concurrency import run_in_threadpool
from starlette.responses import JSONResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.network.bearer import bearer_of
from app.kit.redis.change_hub import ChangeHub, changed
from app.kit.web.shutdown import is_ending
from app.kit.web.sse import hub_of
from app.nodes.access import SentOrders, links_of, nodes_of
from app.nodes.errors import NodeNotFound
from app.nodes.model import OFFLINE_AFTER_S
from app.nodes.service import Nodes
from app.nodes.wire import (
    MAX_UP_BYTES,
    Acknowledgement,
    BadFrame,
    Heartbeat,
    dump_frame,
    order_frame,
    parse_message,
    read,
)

MAX_REASON_BYTES = 123
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class CloseReason:
    """Why the web server closes a connection: a code of RFC 6455, or 4000 plus the corresponding HTTP status."""

    code: int
    reason: str


REFUSED = CloseReason(4401, "this is not, or no longer, a token of this node")
SUPERSEDED = CloseReason(4409, "another connection of this node has taken its place")
SILENT = CloseReason(4408, "nothing was heard of the node for too long")
TOO_LARGE = CloseReason(1009, f"a frame may have {MAX_UP_BYTES} bytes")
ENDING = CloseReason(1012, "the server ends, or begins anew")
TROUBLED = CloseReason(1013, "the web cannot reach its database or Redis; try again in a moment")


async def socket(websocket: WebSocket) -> None:
    """Serves the socket of a node. Clients without its token are refused with 403 before the socket is accepted."""
    name, token = str(websocket.path_params["node"]), bearer_of(websocket.headers)
    try:
        is_its = await run_in_threadpool(nodes_of(websocket).authenticate, token) == name
    except ModelmillError as error:  # the database
        await websocket.send_denial_response(JSONResponse({"error": error.to_dict()}, status_code=error.status))
        return
    if not is_its:
        await websocket.close(REFUSED.code, REFUSED.reason)
        return
    await websocket.accept()
    logger.info("Node %s is connected.", name)
    closing = await NodeConnection(websocket, name, token).run()
    logger.info("The connection of node %s has ended%s.", name, f": {closing.reason}" if closing else "")
    if closing is not None:
        await _close(websocket, closing)


class NodeConnection:
    """One socket, from the node's first heartbeat to its end."""

    def __init__(self, websocket: WebSocket, name: str, token: str) -> None:
        self.websocket = websocket
        self.name = name
        self.token = token
        self.nodes: Nodes = nodes_of(websocket)
        self.sent = SentOrders()
        self.is_synchronised = False

    async def run(self) -> CloseReason | None:
        """Runs until the connection ends. Returns why; None: the node has disconnected."""
        hub: ChangeHub = hub_of(self.websocket)
        with hub.watch(f"node:{self.name}") as flag, links_of(self.websocket).connect(self.name) as superseded:
            tasks = [
                asyncio.create_task(self._receive(flag)),
                asyncio.create_task(self._send(flag)),
                asyncio.create_task(_await_superseded(superseded)),
            ]
            try:
                ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        return next(task for task in tasks if task in ended).result()

    async def _receive(self, flag: asyncio.Event) -> CloseReason | None:
        while True:
            try:
                async with asyncio.timeout(OFFLINE_AFTER_S):
                    message = await self.websocket.receive()
            except TimeoutError:
                return SILENT
            if message["type"] == "websocket.disconnect":
                return None
            closing = await self._handle_frame(message.get("text") or message.get("bytes") or "", flag)
            if closing is not None:
                return closing

    async def _handle_frame(self, frame: str | bytes, flag: asyncio.Event) -> CloseReason | None:
        if len(frame) > MAX_UP_BYTES:
            return TOO_LARGE
        try:
            message = parse_message(read(frame))
            await run_in_threadpool(handle_message, self.nodes, self.name, message)
        except BadFrame as error:
            return CloseReason(1007, error.message)
        except NodeNotFound:
            return REFUSED
        except (ModelmillError, redis.RedisError) as error:
            logger.warning("What node %s said was not taken in: %s", self.name, error)
            return TROUBLED
        if isinstance(message, Heartbeat) and message.order_seqs is not None:
            self.is_synchronised = True
            self.sent.forget()
            flag.set()
        return None

    async def _send(self, flag: asyncio.Event) -> CloseReason | None:
        """Sends orders once the node has reported its orders: a deletion could otherwise overtake what it deletes."""
        clock = asyncio.get_running_loop().time
        while not is_ending():
            await changed(flag, self.sent.wait_s(clock()))
            try:
                if await run_in_threadpool(self.nodes.authenticate, self.token) != self.name:
                    return REFUSED
                pending = await run_in_threadpool(self.nodes.pending, self.name) if self.is_synchronised else []
            except ModelmillError:  # the database
                return TROUBLED
            try:
                for order in self.sent.due(pending, clock()):
                    await self.websocket.send_text(dump_frame(order_frame(order)))
            except WebSocketDisconnect:
                return None
        return ENDING


def handle_message(nodes: Nodes, name: str, message: Acknowledgement | Heartbeat) -> None:
    """Processes a message from the socket or from HTTP."""
    if isinstance(message, Acknowledgement):
        nodes.acknowledge(name, message.seqs)
        return
    nodes.report(name, message.report, address=message.address, version=message.version, now=now())
    if message.order_seqs is not None:
        nodes.synchronise(name, message.order_seqs)


async def _await_superseded(superseded: asyncio.Event) -> CloseReason:
    await superseded.wait()
    return SUPERSEDED


async def _close(websocket: WebSocket, closing: CloseReason) -> None:
    reason = closing.reason.encode()[:MAX_REASON_BYTES].decode(errors="ignore")
    try:
        await websocket.close(closing.code, reason)
    except RuntimeError:  # it was closed by the other end meanwhile
        logger.debug("The other end was quicker.")
