"""The page of the cluster: its nodes, whose their GPUs are, who waits; and what it says where there is no cluster."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.web.auth import user_of
from app.kit.web.http import is_fragment
from app.kit.web.live_fragment import reload_page
from app.kit.web.security import SAFE_METHODS
from app.kit.web.sse import changes_of
from app.kit.web.templates import TemplateContext, render
from app.training.access import training_of
from app.training.model import Node
from app.training.pages import view_models
from app.training.pages.queue_health import condition_of
from app.training.service import ClusterView, Holder
from app.training.store.changes import CLUSTER

EVERY_S = 5
"""Between two looks where nothing is heard of changes."""


def cluster(request: Request) -> Response:
    return render(request, "training/cluster.html", area="cluster", **_build_context(request))


def state(request: Request) -> Response:
    return render(request, "training/_cluster_live.html", **_build_context(request))


def _build_context(request: Request) -> TemplateContext:
    training, user = training_of(request), user_of(request)
    condition = condition_of(training)
    views = training.picture.all() if condition.view else {}
    shown = {name: training.options.shown(name) if len(views) > 1 else "" for name in views}
    return {
        "condition": condition,
        "clusters": [
            ShownCluster(shown[name], view, nodes_of(view, user), holders_of(view, user))
            for name, view in views.items()
            if view
        ],
        "every_s": EVERY_S,
        "me": user,
        "short": view_models.short,
    }


ROUTES = [
    Route("/ui/cluster", cluster),
    Route("/ui/cluster/state", state),
    Route("/ui/cluster/events", changes_of(CLUSTER)),
]


BAR_WIDTH, BAR_HEIGHT, GAP = 1000, 20, 4


class GpuOwner(StrEnum):
    MINE = "mine"
    OTHERS = "others"
    OUTSIDE = "outside"
    """Of something that is no task of ours."""
    FREE = "free"


@dataclass(frozen=True)
class GpuShare:
    """So many GPUs of a node."""

    whose: GpuOwner
    gpus: float
    user: str = ""
    """Whose, where a task holds them."""
    task_id: str = ""


@dataclass(frozen=True)
class NodeView:
    node: Node
    shares: tuple[GpuShare, ...]
    bar: Markup


@dataclass(frozen=True)
class HolderView:
    """Who has GPUs of a node."""

    holder: Holder
    is_mine: bool
    placed: float
    """How many GPUs Ray has given it; the rest of its GPUs is reserved for it."""


@dataclass(frozen=True)
class ShownCluster:
    """One cluster of the page."""

    name: str
    """Empty if there is only one."""
    view: ClusterView
    nodes: Sequence[NodeView]
    holders: Sequence[HolderView]


def nodes_of(view: ClusterView, user: str) -> list[NodeView]:
    """Those that train first."""
    ordered = sorted(view.nodes, key=lambda node: (not node.may_train, -node.total_gpus, node.address))
    return [_build_node(node, view, user) for node in ordered]


def holders_of(view: ClusterView, user: str) -> list[HolderView]:
    made = [HolderView(one, one.user == user, sum(one.by_node.values())) for one in view.holders]
    return sorted(made, key=lambda one: (not one.is_mine, -one.holder.gpus, one.holder.task_id))


def _build_node(node: Node, view: ClusterView, user: str) -> NodeView:
    shares = tuple(_list_shares(node, view, user))
    return NodeView(node, shares, _draw_bar(shares, node.total_gpus))


def _list_shares(node: Node, view: ClusterView, user: str) -> Iterator[GpuShare]:
    held = 0.0
    for one in sorted(view.holders, key=lambda holder: (holder.user != user, holder.user)):
        gpus = one.by_node.get(node.node_id, 0.0)
        held += gpus
        if gpus:
            yield GpuShare(GpuOwner.MINE if one.user == user else GpuOwner.OTHERS, gpus, one.user, one.task_id)
    free = min(node.free_gpus, node.total_gpus - held)  # a task that ends holds for a moment what Ray has freed
    if node.total_gpus - held - free > 0:
        yield GpuShare(GpuOwner.OUTSIDE, node.total_gpus - held - free)
    if free > 0:
        yield GpuShare(GpuOwner.FREE, free)


def _draw_bar(shares: tuple[GpuShare, ...], total: float) -> Markup:
    """One cell for each GPU, colored by whose it is; a node with very many gets one piece per share."""
    rect = '<rect class="gpu gpu-{}" x="{}" y="0" width="{}" height="{}"></rect>'
    pieces, left = [], 0.0
    for share in shares:
        for part in _iterate_cells(share.gpus, total):
            width = BAR_WIDTH * part / total
            pieces.append(
                Markup(rect).format(share.whose, round(left, 1), round(max(width - GAP, 1), 1), BAR_HEIGHT)  # noqa: S704  # format() escapes
            )
            left += width
    text = '<svg class="gpu-bar" viewBox="0 0 {} {}" preserveAspectRatio="none" aria-hidden="true">{}</svg>'
    return Markup(text).format(BAR_WIDTH, BAR_HEIGHT, Markup().join(pieces))  # noqa: S704  # format() escapes


def _iterate_cells(gpus: float, total: float) -> Iterator[float]:
    """1 for each whole GPU, and what is left of one."""
    if total > 32:
        yield gpus
        return
    while gpus > 0:
        yield min(gpus, 1.0)
        gpus -= 1.0


Endpoint = Callable[[Request], Any]


def only_where_on(routes: Sequence[Route]) -> list[Route]:
    return [Route(route.path, _make_switch(route.endpoint), methods=list(route.methods or ())) for route in routes]


def _make_switch(endpoint: Endpoint) -> Callable[[Request], Awaitable[Response]]:
    @functools.wraps(endpoint)
    async def switched(request: Request) -> Response:
        if not training_of(request).options.is_on:
            return _render_off(request)
        if inspect.iscoroutinefunction(endpoint):
            response = await endpoint(request)
        else:
            response = await run_in_threadpool(endpoint, request)
        assert isinstance(response, Response)
        return response

    return switched


def _render_off(request: Request) -> Response:
    if is_fragment(request):  # of a page from before it was switched off
        return reload_page()
    status = 200 if request.method in SAFE_METHODS else 503
    return render(request, "training/off.html", status, area="tasks")
