"""The paths by which the agents of nodes are linked: by the node's token. OPERATIONS is its table of routes."""

from __future__ import annotations

import asyncio

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, WebSocketRoute

from app.kit.clock import now
from app.kit.errors import Conflict, NotFound
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.objects.blobs import SHA256, blob_key
from app.kit.redis.change_hub import changed
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import LINK
from app.kit.web.downloads import stream_bytes
from app.kit.web.http import json_answer, query
from app.kit.web.operations import NODES, OpenApiSchema, Operations
from app.kit.web.request_body import read_whole_body
from app.kit.web.shutdown import is_ending
from app.kit.web.sse import hub_of
from app.kit.web.state import objects_of
from app.nodes import schemas
from app.nodes.access import links_of, nodes_of, this_node
from app.nodes.node_socket import handle_message, socket
from app.nodes.wire import MAX_UP_BYTES, Acknowledgement, Heartbeat, order_frame, read

SLICE_S = 1.0
"""Seconds until a waiting poll notices that the server ends."""
NO_STORE = {"Cache-Control": "no-store"}
_RANGE: dict[str, OpenApiSchema] = {"Range": {"type": "string", "pattern": "^bytes=[0-9]{1,9}-[0-9]{0,9}$"}}
OPERATIONS = Operations(
    {
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "node": {"type": "string", "pattern": schemas.NAME_PATTERN},
    }
)


class LinkSuperseded(Conflict, code="LINK_SUPERSEDED"):
    """Another connection of the same node has superseded this one."""


class NoSuchBlob(NotFound, code="BLOB_NOT_FOUND"):
    """It does not exist, or no order of this node names it."""


# --- for users --------------------------------------------------------------------------------------
@OPERATIONS.get(
    LINK + "/{node}/messages",
    "Wait for the orders of a node (the node's token)",
    schemas.MessagesAnswer,
    errors=(403, 409, 422, 503),
    query=schemas.MessagesQuery,
    callers=NODES,
)
async def poll_messages(request: Request) -> Response:
    """Long polling, for networks that block WebSockets."""
    name, body = this_node(request), query(request, schemas.MessagesQuery)
    clock = asyncio.get_running_loop().time
    until = clock() + body.wait
    links, hub = links_of(request), hub_of(request)
    with hub.watch(f"node:{name}") as flag, links.connect(name) as superseded:
        while True:
            due = links.sent_to(name).due(await run_in_threadpool(nodes_of(request).pending, name), clock())
            if due or clock() >= until or is_ending():
                return JSONResponse({"messages": [order_frame(order) for order in due]}, headers=NO_STORE)
            await changed(flag, min(SLICE_S, until - clock()))
            if superseded.is_set():
                raise LinkSuperseded("Another connection of this node has taken the place of this one.")


@OPERATIONS.post(
    LINK + "/{node}/acknowledge",
    "Acknowledge that a node has stored messages (the node's token)",
    {204: None},
    errors=(400, 413, 503),
    body=schemas.Acknowledged,
    callers=NODES,
)
async def acknowledge_messages(request: Request) -> Response:
    name, message = this_node(request), Acknowledgement.from_json(await _read_message(request))
    await run_in_threadpool(handle_message, nodes_of(request), name, message)
    return Response(status_code=204)


@OPERATIONS.post(
    LINK + "/{node}/report",
    "Send the heartbeat of a node (the node's token)",
    {204: None},
    errors=(400, 404, 413, 503),
    body=schemas.Report,
    callers=NODES,
)
async def report_node(request: Request) -> Response:
    name, message = this_node(request), Heartbeat.from_json(await _read_message(request))
    await run_in_threadpool(handle_message, nodes_of(request), name, message)
    if message.order_seqs is not None:
        links_of(request).sent_to(name).forget()
    return Response(status_code=204)


@OPERATIONS.get(
    LINK + "/{node}/blobs/{sha256}",
    "Download a file that an order of the node names (the node's token)",
    {200: ("application/octet-stream",), 206: ("application/octet-stream",), 304: None},
    more_errors=(403, 416),
    sent_headers=_RANGE,
    callers=NODES,
)
def get_blob(request: Request, sha256: str) -> Response:
    name = this_node(request)
    if SHA256.fullmatch(sha256) is None or not nodes_of(request).may_read(name, sha256):
        raise NoSuchBlob(f"No message to the node {name!r} names such a file.")
    objects: ObjectStore = objects_of(request)
    key = blob_key(sha256)
    try:
        size = objects.info(key).size_bytes
    except ObjectMissing:
        raise NoSuchBlob("The file is no longer kept.", hint="Bring the model again.") from None
    return stream_bytes(
        request,
        lambda start, end: objects.read(key, start=start, end=end),
        size=size,
        etag=sha256,
        name=sha256,
        media_type="application/octet-stream",
    )


@OPERATIONS.post(
    LINK + "/{node}/certificate",
    "Certify the key of a node for encrypted connections to other nodes (the node's token)",
    {201: schemas.CertificateAnswer},
    errors=(403, 422, 503),
    callers=NODES,
    guard=this_node,
)
def certify_node(request: Request, body: schemas.CertificateRequest) -> Response:
    issued = nodes_of(request).certificates.issue(this_node(request), body.request, now=now())
    return json_answer(schemas.CertificateAnswer(**vars(issued)), 201, NO_STORE)


@OPERATIONS.get(
    LINK + "/{node}/authorities",
    "Get the certificate authority of nodes and its revocation list (the node's token)",
    schemas.AuthoritiesAnswer,
    errors=(403, 503),
    callers=NODES,
)
def list_authorities(request: Request) -> Response:
    this_node(request)
    return json_answer(schemas.AuthoritiesAnswer(authorities=nodes_of(request).certificates.authorities()))


async def _read_message(request: Request) -> JsonObject:
    return read(await read_whole_body(request, MAX_UP_BYTES, "A message"))


ROUTES: list[BaseRoute] = [WebSocketRoute(LINK + "/{node}/socket", socket)]
"""The route that is not an HTTP operation: the socket."""
