"""The page of the cluster: its nodes, whose their GPUs are, who waits."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.web.auth import user_of
from app.kit.web.sse import change_stream
from app.kit.web.templates import render
from app.training.access import training_of
from app.training.pages import node_views, view_models
from app.training.pages.queue_health import condition_of
from app.training.store.changes import CLUSTER

EVERY_S = 5
"""Between two looks where nothing is heard of changes."""


def cluster(request: Request) -> Response:
    return render(request, "training/cluster.html", area="cluster", **_context(request))


def state(request: Request) -> Response:
    return render(request, "training/_cluster_live.html", **_context(request))


async def events(request: Request) -> Response:
    """`changed` when the scheduler saw the cluster otherwise than before."""
    return change_stream(request, CLUSTER)


def _context(request: Request) -> dict[str, Any]:
    condition, user = condition_of(training_of(request)), user_of(request)
    view = condition.view
    return {
        "condition": condition,
        "cluster": view,
        "nodes": node_views.nodes_of(view, user) if view else [],
        "holders": node_views.holders_of(view, user) if view else [],
        "every_s": EVERY_S,
        "short": view_models.short,
    }


ROUTES = [
    Route("/ui/cluster", cluster),
    Route("/ui/cluster/state", state),
    Route("/ui/cluster/events", events),
]
