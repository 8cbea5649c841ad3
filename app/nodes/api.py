"""The JSON API of nodes, for users. OPERATIONS is its table of routes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.kit.clock import now
from app.kit.text.labels import labels_in, selects
from app.kit.web.auth import caller_of, user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations
from app.kit.web.public_address import find_reached_url
from app.nodes import schemas
from app.nodes.access import nodes_of, require_admin, require_owner
from app.nodes.commands import command_of
from app.nodes.grants import read_grants

NO_STORE = {"Cache-Control": "no-store"}
OPERATIONS = Operations(
    {
        "camera": {"type": "string", "pattern": "^[0-9]{1,9}$"},
        "name": {"type": "string", "pattern": schemas.NAME_PATTERN},
    }
)


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
    command = command_of(node, token, find_reached_url(request))
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


@OPERATIONS.add(
    "GET",
    "/neptune/nodes/{name}",
    "Get a node and the state of its workers",
    {200: schemas.NodeAnswer},
    version_fields=("side", "labels", "created_at"),
)
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
