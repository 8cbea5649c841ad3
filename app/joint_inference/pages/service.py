"""The page of one service, the fragment that keeps it current, its pictures and its YAML."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.joint_inference.access import joint_of
from app.joint_inference.model.resource import Role, Service
from app.joint_inference.pages import plots, view_models
from app.joint_inference.pages.service_list import url_of
from app.joint_inference.pages.yaml_text import editable, to_yaml
from app.joint_inference.service import Point
from app.joint_inference.service.reports import KEPT_SAMPLES
from app.kit.clock import now
from app.kit.errors import NotFound
from app.kit.objects.base import attachment
from app.kit.web.auth import user_of
from app.kit.web.templates import render
from app.nodes.access import nodes_of

SHOWN_EVENTS = 30
REDRAWN_S = 10
"""So often the fragment is drawn anew though nothing was reported: nodes may have become silent."""
PICTURE_KINDS = frozenset({"image/jpeg", "image/png"})


def service(request: Request) -> Response:
    found = service_of(request)
    return render(
        request,
        "joint_inference/service.html",
        area="services",
        note=request.query_params.get("note", ""),
        **_body(request, found, now()),
        yaml=to_yaml(editable(found)),
    )


def live(request: Request) -> Response:
    """What changes by itself. 204 when that is what the page shows already (`seen`)."""
    try:
        found = service_of(request)
    except NotFound:
        return Response(status_code=200, headers={"HX-Refresh": "true"})  # the page then says that it is gone
    context = _body(request, found, now())
    if request.query_params.get("seen", "") == context["seen"]:
        return Response(status_code=204)
    return render(request, "joint_inference/_service_live.html", **context)


def sample(request: Request) -> Response:
    """The picture that a model was shown. It never changes under its id."""
    path = request.path_params
    data, kind = joint_of(request).reports.picture(user_of(request), path["namespace"], path["name"], path["sample_id"])
    headers = {"Cache-Control": "private, max-age=3600", "Content-Security-Policy": "default-src 'none'; sandbox"}
    return Response(data, media_type=kind if kind in PICTURE_KINDS else "application/octet-stream", headers=headers)


def download(request: Request) -> Response:
    found = service_of(request)
    headers = {"Content-Disposition": attachment(f"{found.name}.yaml"), "Cache-Control": "no-store"}
    return Response(to_yaml(editable(found)), media_type="application/yaml", headers=headers)


def service_of(request: Request) -> Service:
    """Raises ServiceNotFound."""
    path = request.path_params
    return joint_of(request).services.get(user_of(request), path["namespace"], path["name"])


def _body(request: Request, found: Service, at: datetime) -> dict[str, Any]:
    joint, user = joint_of(request), user_of(request)
    series = joint.reports.series(found.uid)
    samples = joint.reports.samples(user, found.namespace, found.name)[:KEPT_SAMPLES]
    workers = [_worker(request, found, role, at) for role in Role]
    return {
        "service": found,
        "url": url_of(found.namespace, found.name),
        "wanted": found.specification,
        "condition": view_models.condition_of(found),
        "warnings": view_models.warnings_of(found),
        "figures": view_models.figures_of(found.reported),
        "latency": plots.latency_plot(series),
        "uploads": plots.upload_plot(series),
        "workers": workers,
        "events": joint.services.events(user, found.namespace, found.name)[:SHOWN_EVENTS],
        "samples": [view_models.sample_view(one) for one in samples],
        "seen": _version(found, series, [one.id for one in samples], workers, at),
    }


def _worker(request: Request, found: Service, role: Role, at: datetime) -> view_models.WorkerView:
    node = nodes_of(request).find_for(found.owner, found.specification.worker(role).node)
    return view_models.worker_of(found, role, node, is_online=node is not None and node.is_online(at))


def _version(
    found: Service, series: list[Point], samples: list[str], workers: list[view_models.WorkerView], at: datetime
) -> str:
    """Names what is shown: equal while nothing would look different."""
    drawn = int(at.timestamp() // REDRAWN_S)
    reports = [(worker.is_online, worker.report) for worker in workers]
    what = (found.version, series[-1].at if series else "", samples, reports, drawn)
    return sha256(repr(what).encode()).hexdigest()[:12]


ROUTES = [
    Route("/ui/services/{namespace}/{name}", service),
    Route("/ui/services/{namespace}/{name}/live", live),
    Route("/ui/services/{namespace}/{name}/yaml", download),
    Route("/ui/services/{namespace}/{name}/samples/{sample_id}", sample),
]
