"""The pages of nodes: the list, one node, adding one, a new token, removing it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from app.kit.access import EVERYBODY, BadAccess, read_typed
from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.text.labels import BadLabels, labels_in, text_of
from app.kit.web.auth import caller_of, user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import is_fragment
from app.kit.web.idempotency import form_once
from app.kit.web.page_actions import refusal_of, with_fields, with_form
from app.kit.web.public_address import find_reached_url
from app.kit.web.sse import change_stream, changes_of
from app.kit.web.templates import render
from app.nodes.access import nodes_of, owns, require_admin, require_owner
from app.nodes.cameras import MOST_SOURCE, BadCamera, CameraInUse
from app.nodes.commands import command_of, plain_command
from app.nodes.errors import BadNodeName, NodeBusy, NodeExists
from app.nodes.grants import CAMERAS, Grants
from app.nodes.model import Node, Side
from app.nodes.schemas import CameraForm, LabelForm, NodeForm, camera_answer
from app.nodes.view_models import access_fields, view_of

PAGE = "/ui/nodes"
EVERY_S = 5
"""Seconds between two updates if changes are not announced."""
CHANNEL = "nodes"
"""The channel for changes of all nodes; those of one node are at nodes:{name}."""
EXAMPLE = "edge0"
MAX_BYTES = 200_000


def nodes(request: Request) -> Response:
    """Sends the page, or only the table, which htmx requests repeatedly."""
    at, is_admin = now(), caller_of(request).is_admin
    template = "nodes/_nodes_live.html" if is_fragment(request) else "nodes/nodes.html"
    views = [view_of(node, at, is_whole=is_admin) for node in nodes_of(request).access.seen_by(user_of(request))]
    return render(
        request,
        template,
        area="nodes",
        views=views,
        every_s=EVERY_S,
        add_command=f"modelmill nodes add {EXAMPLE} --side edge",
        start_command=plain_command(EXAMPLE, "edge", find_reached_url(request)),
        note=request.query_params.get("note", ""),
    )


def node(request: Request) -> Response:
    return _render_page(request)


async def node_events(request: Request) -> Response:
    """Streams `changed` when the node has connected, disconnected, or reports other values."""
    node = await run_in_threadpool(nodes_of(request).access.get_for, user_of(request), request.path_params["name"])
    return change_stream(request, f"{CHANNEL}:{node.name}")


@with_fields(MAX_BYTES, "A list of who may use it", guard=require_owner)
def permit(request: Request, sent: dict[str, str]) -> Response:
    """Stores the page's form. A camera whose field is left as * is for everybody who may use the node."""
    name = request.path_params["name"]
    try:
        cameras = {
            kind: {
                key.partition(".")[2]: allowed
                for key, text in sent.items()
                if key.startswith(f"{kind}.") and (allowed := read_typed(text)) != EVERYBODY
            }
            for kind in CAMERAS
        }
        access, is_admin = nodes_of(request).access, caller_of(request).is_admin
        owners = read_typed(sent.get("owners", "")) if is_admin else access.grants(name).owners
        grants = Grants(read_typed(sent.get("allowed", "")), owners, **cameras)
    except BadAccess as error:
        return _render_page(request, sent, error)
    access.permit(name, grants, by=user_of(request), is_admin=is_admin)
    return see_other(f"{PAGE}/{name}?note=permitted")


@with_form(LabelForm, guard=require_owner)
def label(request: Request, fields: LabelForm) -> Response:
    name = request.path_params["name"]
    try:
        nodes_of(request).access.label(name, labels_in(fields.labels), by=user_of(request))
    except BadLabels as error:
        return _render_page(request, {"labels": fields.labels}, error)
    return see_other(f"{PAGE}/{name}?note=labelled")


@with_form(CameraForm, guard=require_owner)
def add_camera(request: Request, fields: CameraForm) -> Response:
    name = request.path_params["name"]
    try:
        nodes_of(request).cameras.add(name, fields.type, fields.source, by=user_of(request))
    except BadCamera as error:
        return _render_page(request, None, error, fields)
    return see_other(f"{PAGE}/{name}?note=camera-added#cameras")


@with_form(CameraForm, guard=require_owner)
def change_camera(request: Request, fields: CameraForm) -> Response:
    """Changes a camera. An empty address leaves it unchanged: it is not shown, because it may contain a password."""
    name, camera_id = request.path_params["name"], request.path_params["camera"]
    source, cameras = fields.source.strip() or None, nodes_of(request).cameras
    try:
        cameras.change(name, camera_id, type=fields.type, source=source, by=user_of(request))
    except BadCamera as error:
        return _render_page(request, None, error)
    return see_other(f"{PAGE}/{name}?note=camera-changed#cameras")


def remove_camera(request: Request) -> Response:
    require_owner(request)
    name = request.path_params["name"]
    try:
        nodes_of(request).cameras.remove(name, request.path_params["camera"], by=user_of(request))
    except CameraInUse as error:
        return _render_page(request, None, error)
    return see_other(f"{PAGE}/{name}?note=camera-removed#cameras")


def _render_page(
    request: Request,
    sent: Mapping[str, str] | None = None,
    error: ModelmillError | None = None,
    new_camera: CameraForm | None = None,
) -> Response:
    """Renders the page. If a form was wrong, it shows what was sent.

    Args:
        request: the request of the page or of a form.
        sent: the fields of the form for access or for labels.
        error: the error of the form.
        new_camera: the fields of the form that adds a camera.
    """
    is_admin = caller_of(request).is_admin
    node = nodes_of(request).access.get_for(user_of(request), request.path_params["name"])
    is_owner = owns(request, node.name)
    template = "nodes/_node_live.html" if is_fragment(request) else "nodes/node.html"
    return render(
        request,
        template,
        area="nodes",
        error=error,
        is_owner=is_owner,
        labels=(sent or {}).get("labels", text_of(node.labels)),
        fields=access_fields(node, nodes_of(request).access.grants(node.name), sent or {}, is_admin=is_admin)
        if is_owner
        else [],
        note=request.query_params.get("note", ""),
        cameras=[camera_answer(camera) for camera in nodes_of(request).cameras.all(node.name).cameras]
        if is_owner
        else [],
        new_camera=new_camera or CameraForm(source=request.query_params.get("source", "")[:MOST_SOURCE]),
        discovered=node.report.discovered if is_owner else (),
        view=view_of(node, now(), is_whole=is_admin),
        every_s=EVERY_S,
        pending=nodes_of(request).pending(node.name) if is_admin else [],
        command=plain_command(node.name, node.side.value, find_reached_url(request)),
    )


def new(request: Request, fields: NodeForm | None = None, error: ModelmillError | None = None) -> Response:
    require_admin(request)
    return render(request, "nodes/new.html", area="nodes", form=fields or NodeForm(), sides=list(Side), error=error)


@with_form(NodeForm, guard=require_admin)
def create(request: Request, fields: NodeForm) -> Response:
    try:
        node, token = nodes_of(request).register(fields.name.strip(), fields.side, now=now())
    except (BadNodeName, NodeExists) as error:
        return new(request, fields, error)
    return _show_token_once(request, node, token)


def confirm_token(request: Request) -> Response:
    require_admin(request)
    node = nodes_of(request).get(request.path_params["name"])
    return render(request, "nodes/confirm_token.html", area="nodes", node=node)


def replace_token(request: Request) -> Response:
    require_admin(request)
    node = nodes_of(request).get(request.path_params["name"])
    node, token = nodes_of(request).register(node.name, node.side, now=now(), replace=True)
    return _show_token_once(request, node, token)


def confirm_removal(request: Request, status: int = 200) -> Response:
    require_admin(request)
    node = nodes_of(request).get(request.path_params["name"])
    refusal = refusal_of(NodeBusy, nodes_of(request).require_idle, node.name)
    return render(request, "nodes/confirm_removal.html", status, area="nodes", node=node, refusal=refusal)


def remove(request: Request) -> Response:
    require_admin(request)
    try:
        nodes_of(request).remove(request.path_params["name"])
    except NodeBusy as error:
        return confirm_removal(request, error.status)
    return see_other(f"{PAGE}?note=removed")


def _show_token_once(request: Request, node: Node, token: str) -> Response:
    """Answers the form with the only page that ever shows the token."""
    command = command_of(node, token, find_reached_url(request))
    return render(request, "nodes/token.html", area="nodes", node=node, text=token, command=command)


ROUTES: list[BaseRoute] = [
    Route(PAGE, nodes),
    Route("/ui/node-events", changes_of(CHANNEL)),
    Route(PAGE + "/new", new),
    Route(PAGE + "/new", form_once(create), methods=["POST"]),
    Route(PAGE + "/{name}", node),
    Route(PAGE + "/{name}/events", node_events),
    Route(PAGE + "/{name}/access", permit, methods=["POST"]),
    Route(PAGE + "/{name}/labels", label, methods=["POST"]),
    Route(PAGE + "/{name}/cameras", form_once(add_camera), methods=["POST"]),
    Route(PAGE + "/{name}/cameras/{camera}", change_camera, methods=["POST"]),
    Route(PAGE + "/{name}/cameras/{camera}/remove", remove_camera, methods=["POST"]),
    Route(PAGE + "/{name}/token", confirm_token),
    Route(PAGE + "/{name}/token", replace_token, methods=["POST"]),
    Route(PAGE + "/{name}/remove", confirm_removal),
    Route(PAGE + "/{name}/remove", remove, methods=["POST"]),
]
