"""The JSON API of nodes, and the paths by which their agents are linked. OPERATIONS is its table of routes."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, WebSocketRoute

from app.kit.clock import now
from app.kit.errors import Conflict, NotFound
from app.kit.objects import ObjectMissing, ObjectStore
from app.kit.objects.blobs import SHA256, blob_key
from app.kit.redis.change_hub import changed
from app.kit.text.labels import labels_in, selects
from app.kit.web.auth import LINK, caller_of, user_of
from app.kit.web.http import json_answer, query, stream_bytes
from app.kit.web.operations import NODES, Operations
from app.kit.web.public_address import reached_url
from app.kit.web.request_body import whole_body
from app.kit.web.shutdown import is_ending
from app.kit.web.sse import hub_of
from app.kit.web.state import objects_of
from app.nodes import schemas
from app.nodes.access import links_of, nodes_of, require_admin, require_owner, this_node
from app.nodes.commands import command_of
from app.nodes.grants import read_grants
from app.nodes.model import Order
from app.nodes.node_socket import handle_message, socket
from app.nodes.wire import MAX_UP_BYTES, Acknowledgement, Heartbeat, order_frame, read

SLICE_S = 1.0
"""Seconds until a waiting poll notices that the server ends."""
NO_STORE = {"Cache-Control": "no-store"}
_RANGE: dict[str, dict[str, Any]] = {"Range": {"type": "string", "pattern": "^bytes=[0-9]{1,9}-[0-9]{0,9}$"}}
OPERATIONS = Operations(
    {
        "camera": {"type": "string", "pattern": "^[0-9]{1,9}$"},
        "name": {"type": "string", "pattern": schemas.NAME_PATTERN},
        "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
        "node": {"type": "string", "pattern": schemas.NAME_PATTERN},
    }
)


class LinkSuperseded(Conflict):
    """Another connection of the same node has superseded this one."""

    code = "LINK_SUPERSEDED"


class NoSuchBlob(NotFound):
    """It does not exist, or no order of this node names it."""

    code = "BLOB_NOT_FOUND"


# --- for users --------------------------------------------------------------------------------------
@OPERATIONS.add(
    "POST",
    "/neptune/nodes",
    "Register a node; its token is shown only once (administrators)",
    {201: schemas.RegisteredAnswer},
    more_errors=(409,),
    body=schemas.NewNode,
    guard=require_admin,
)
def register_node(request: Request, body: schemas.NewNode) -> Response:
    node, token = nodes_of(request).register(body.name, body.side, now=now(), replace=body.replace)
    command = command_of(node, token, reached_url(request))
    answer = schemas.RegisteredAnswer(name=node.name, side=node.side, token=token, command=command)
    return json_answer(answer, 201, {"Location": f"/neptune/nodes/{node.name}", **NO_STORE})


@OPERATIONS.add(
    "GET",
    "/neptune/nodes",
    "List the nodes that I may use, by name",
    {200: schemas.NodesAnswer},
    query=schemas.NodesQuery,
)
def list_nodes(request: Request, params: schemas.NodesQuery) -> Response:
    at, is_whole, selector = now(), caller_of(request).is_admin, labels_in(params.selector)
    nodes = [n for n in nodes_of(request).access.seen_by(user_of(request)) if selects(selector, n.labels)]
    return json_answer(schemas.NodesAnswer(nodes=[schemas.node_answer(node, at, is_whole=is_whole) for node in nodes]))


@OPERATIONS.add("GET", "/neptune/nodes/{name}", "Get a node and the state of its workers", {200: schemas.NodeAnswer})
def get_node(request: Request) -> Response:
    node = nodes_of(request).access.get_for(user_of(request), request.path_params["name"])
    return json_answer(schemas.node_answer(node, now(), is_whole=caller_of(request).is_admin))


@OPERATIONS.add(
    "GET",
    "/neptune/nodes/{name}/access",
    "Get who may use a node and its cameras (owners)",
    {200: schemas.Access},
    more_errors=(403,),
)
def get_access(request: Request) -> Response:
    name = request.path_params["name"]
    require_owner(request)
    return json_answer(schemas.Access(**nodes_of(request).access.grants(name).to_json()))


@OPERATIONS.add(
    "PUT",
    "/neptune/nodes/{name}/access",
    "Set who may use a node and its cameras; workloads of others on it are stopped (owners)",
    {200: schemas.Access},
    more_errors=(403,),
    body=schemas.Access,
    guard=require_owner,
)
def put_access(request: Request, body: schemas.Access) -> Response:
    name, grants = request.path_params["name"], read_grants(body.model_dump())
    nodes_of(request).access.permit(name, grants, by=user_of(request), is_admin=caller_of(request).is_admin)
    return json_answer(schemas.Access(**grants.to_json()))


@OPERATIONS.add(
    "PUT",
    "/neptune/nodes/{name}/labels",
    "Set the labels of a node; workloads that select it start there, those that no longer do stop (owners)",
    {200: schemas.NodeLabels},
    more_errors=(403,),
    body=schemas.NodeLabels,
    guard=require_owner,
)
def put_labels(request: Request, body: schemas.NodeLabels) -> Response:
    nodes_of(request).access.label(request.path_params["name"], body.labels, by=user_of(request))
    return json_answer(schemas.NodeLabels(labels=body.labels))


@OPERATIONS.add(
    "GET",
    "/neptune/nodes/{name}/cameras",
    "List the cameras that were added to a node while its agent was running (owners)",
    {200: schemas.CamerasAnswer},
    more_errors=(403,),
)
def list_cameras(request: Request) -> Response:
    nodes, name = nodes_of(request), request.path_params["name"]
    require_owner(request)
    cameras = nodes.cameras.all(name).cameras
    return json_answer(schemas.cameras_answer(cameras, nodes.get(name).report.discovered))


@OPERATIONS.add(
    "POST",
    "/neptune/nodes/{name}/cameras",
    "Add a camera; the next report of the node shows whether it may and can open it (owners)",
    {201: schemas.CameraAnswer},
    more_errors=(403, 409),
    body=schemas.NewCamera,
    guard=require_owner,
)
def add_camera(request: Request, body: schemas.NewCamera) -> Response:
    name = request.path_params["name"]
    camera = nodes_of(request).cameras.add(name, body.type, body.source, by=user_of(request))
    location = f"/neptune/nodes/{name}/cameras/{camera.id}"
    return json_answer(schemas.camera_answer(camera), 201, {"Location": location})


@OPERATIONS.add(
    "PATCH",
    "/neptune/nodes/{name}/cameras/{camera}",
    "Change a camera; jobs that read it switch to the new source (owners)",
    {200: schemas.CameraAnswer},
    more_errors=(403,),
    body=schemas.ChangedCamera,
    guard=require_owner,
)
def change_camera(request: Request, body: schemas.ChangedCamera) -> Response:
    cameras, name, camera_id = nodes_of(request).cameras, request.path_params["name"], request.path_params["camera"]
    camera = cameras.change(name, camera_id, type=body.type, source=body.source, by=user_of(request))
    return json_answer(schemas.camera_answer(camera))


@OPERATIONS.add(
    "DELETE",
    "/neptune/nodes/{name}/cameras/{camera}",
    "Remove a camera that no job reads (owners)",
    {204: None},
    more_errors=(403, 409),
)
def remove_camera(request: Request) -> Response:
    name = request.path_params["name"]
    require_owner(request)
    nodes_of(request).cameras.remove(name, request.path_params["camera"], by=user_of(request))
    return Response(status_code=204)


@OPERATIONS.add(
    "DELETE",
    "/neptune/nodes/{name}",
    "Remove a node that runs nothing (administrators)",
    {204: None},
    more_errors=(409,),
)
def remove_node(request: Request) -> Response:
    require_admin(request)
    nodes_of(request).remove(request.path_params["name"])
    return Response(status_code=204)


# --- for the nodes ----------------------------------------------------------------------------------
@OPERATIONS.add(
    "GET",
    LINK + "/{node}/messages",
    "Wait for the orders of a node (the node's token)",
    {200: schemas.MessagesAnswer},
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
                return _messages(due)
            await changed(flag, min(SLICE_S, until - clock()))
            if superseded.is_set():
                raise LinkSuperseded("Another connection of this node has taken the place of this one.")


@OPERATIONS.add(
    "POST",
    LINK + "/{node}/acknowledge",
    "Acknowledge that a node has stored messages (the node's token)",
    {204: None},
    errors=(400, 413, 503),
    body=schemas.Acknowledged,
    callers=NODES,
)
async def acknowledge_messages(request: Request) -> Response:
    name, message = this_node(request), Acknowledgement.from_json(await _sent(request))
    await run_in_threadpool(handle_message, nodes_of(request), name, message)
    return Response(status_code=204)


@OPERATIONS.add(
    "POST",
    LINK + "/{node}/report",
    "Send the heartbeat of a node (the node's token)",
    {204: None},
    errors=(400, 404, 413, 503),
    body=schemas.Report,
    callers=NODES,
)
async def report_node(request: Request) -> Response:
    name, message = this_node(request), Heartbeat.from_json(await _sent(request))
    await run_in_threadpool(handle_message, nodes_of(request), name, message)
    if message.order_seqs is not None:
        links_of(request).sent_to(name).forget()
    return Response(status_code=204)


@OPERATIONS.add(
    "GET",
    LINK + "/{node}/blobs/{sha256}",
    "Download a file that an order of the node names (the node's token)",
    {200: ("application/octet-stream",), 206: ("application/octet-stream",), 304: None},
    more_errors=(403, 416),
    sent_headers=_RANGE,
    callers=NODES,
)
def get_blob(request: Request) -> Response:
    name, sha256 = this_node(request), str(request.path_params["sha256"])
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


@OPERATIONS.add(
    "POST",
    LINK + "/{node}/certificate",
    "Certify the key of a node for encrypted connections to other nodes (the node's token)",
    {201: schemas.CertificateAnswer},
    errors=(403, 422, 503),
    body=schemas.CertificateRequest,
    callers=NODES,
    guard=this_node,
)
def certify_node(request: Request, body: schemas.CertificateRequest) -> Response:
    issued = nodes_of(request).certificates.issue(this_node(request), body.request, now=now())
    return json_answer(schemas.CertificateAnswer(**vars(issued)), 201, NO_STORE)


@OPERATIONS.add(
    "GET",
    LINK + "/{node}/authorities",
    "Get the certificate authority of nodes and its revocation list (the node's token)",
    {200: schemas.AuthoritiesAnswer},
    errors=(403, 503),
    callers=NODES,
)
def list_authorities(request: Request) -> Response:
    this_node(request)
    return json_answer(schemas.AuthoritiesAnswer(authorities=nodes_of(request).certificates.authorities()))


async def _sent(request: Request) -> dict[str, Any]:
    """Reads the message in the body. Raises BadFrame, TooLarge."""
    return read(await whole_body(request, MAX_UP_BYTES, "A message"))


def _messages(due: list[Order]) -> Response:
    return JSONResponse({"messages": [order_frame(order) for order in due]}, headers=NO_STORE)


ROUTES: list[BaseRoute] = [WebSocketRoute(LINK + "/{node}/socket", socket)]
"""The route that is not an HTTP operation: the socket."""
