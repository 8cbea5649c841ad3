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


@OPERATIONS.post(
    "/neptune/nodes",
    "Register a node; its token is shown only once (administrators)",
    {201: schemas.RegisteredAnswer},
    more_errors=(409,),
    guard=require_admin,
)
def register_node(request: Request, body: schemas.NewNode) -> Response:
    node, token = nodes_of(request).register(body.name, body.side, now=now(), replace=body.replace)
    command = command_of(node, token, find_reached_url(request))
    answer = schemas.RegisteredAnswer(name=node.name, side=node.side, token=token, command=command)
    return json_answer(answer, 201, {"Location": f"/neptune/nodes/{node.name}", **NO_STORE})


@OPERATIONS.get("/neptune/nodes", "List the nodes that I may use, by name", schemas.NodesAnswer)
def list_nodes(request: Request, params: schemas.NodesQuery) -> Response:
    at, is_whole, selector = now(), caller_of(request).is_admin, labels_in(params.selector)
    nodes = [n for n in nodes_of(request).access.seen_by(user_of(request)) if selects(selector, n.labels)]
    return json_answer(schemas.NodesAnswer(nodes=[schemas.node_answer(node, at, is_whole=is_whole) for node in nodes]))


@OPERATIONS.get(
    "/neptune/nodes/{name}",
    "Get a node and the state of its workers",
    schemas.NodeAnswer,
    version_fields=("side", "labels", "created_at"),
)
def get_node(request: Request, name: str) -> Response:
    node = nodes_of(request).access.get_for(user_of(request), name)
    return json_answer(schemas.node_answer(node, now(), is_whole=caller_of(request).is_admin))


@OPERATIONS.get(
    "/neptune/nodes/{name}/access",
    "Get who may use a node and its cameras (owners)",
    schemas.Access,
    more_errors=(403,),
)
def get_access(request: Request, name: str) -> Response:
    require_owner(request)
    return json_answer(schemas.Access(**nodes_of(request).access.grants(name).to_json()))


@OPERATIONS.put(
    "/neptune/nodes/{name}/access",
    "Set who may use a node and its cameras; workloads of others on it are stopped (owners)",
    schemas.Access,
    more_errors=(403,),
    guard=require_owner,
)
def put_access(request: Request, name: str, body: schemas.Access) -> Response:
    grants = read_grants(body.model_dump())
    nodes_of(request).access.permit(name, grants, by=user_of(request), is_admin=caller_of(request).is_admin)
    return json_answer(schemas.Access(**grants.to_json()))


@OPERATIONS.put(
    "/neptune/nodes/{name}/labels",
    "Set the labels of a node; workloads that select it start there, those that no longer do stop (owners)",
    schemas.NodeLabels,
    more_errors=(403,),
    guard=require_owner,
)
def put_labels(request: Request, name: str, body: schemas.NodeLabels) -> Response:
    nodes_of(request).access.label(name, body.labels, by=user_of(request))
    return json_answer(schemas.NodeLabels(labels=body.labels))


@OPERATIONS.get(
    "/neptune/nodes/{name}/cameras",
    "List the cameras that were added to a node while its agent was running (owners)",
    schemas.CamerasAnswer,
    more_errors=(403,),
)
def list_cameras(request: Request, name: str) -> Response:
    nodes = nodes_of(request)
    require_owner(request)
    cameras = nodes.cameras.all(name).cameras
    return json_answer(schemas.cameras_answer(cameras, nodes.get(name).report.discovered))


@OPERATIONS.post(
    "/neptune/nodes/{name}/cameras",
    "Add a camera; the next report of the node shows whether it may and can open it (owners)",
    {201: schemas.CameraAnswer},
    more_errors=(403, 409),
    guard=require_owner,
)
def add_camera(request: Request, name: str, body: schemas.NewCamera) -> Response:
    camera = nodes_of(request).cameras.add(name, body.type, body.source, by=user_of(request))
    location = f"/neptune/nodes/{name}/cameras/{camera.id}"
    return json_answer(schemas.camera_answer(camera), 201, {"Location": location})


@OPERATIONS.patch(
    "/neptune/nodes/{name}/cameras/{camera}",
    "Change a camera; jobs that read it switch to the new source (owners)",
    schemas.CameraAnswer,
    more_errors=(403,),
    guard=require_owner,
)
def change_camera(request: Request, name: str, camera: str, body: schemas.ChangedCamera) -> Response:
    cameras = nodes_of(request).cameras
    changed = cameras.change(name, camera, type=body.type, source=body.source, by=user_of(request))
    return json_answer(schemas.camera_answer(changed))


@OPERATIONS.delete(
    "/neptune/nodes/{name}/cameras/{camera}", "Remove a camera that no job reads (owners)", more_errors=(403, 409)
)
def remove_camera(request: Request, name: str, camera: str) -> None:
    require_owner(request)
    nodes_of(request).cameras.remove(name, camera, by=user_of(request))


@OPERATIONS.delete("/neptune/nodes/{name}", "Remove a node that runs nothing (administrators)", more_errors=(409,))
def remove_node(request: Request, name: str) -> None:
    require_admin(request)
    nodes_of(request).remove(name)
