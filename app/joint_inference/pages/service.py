"""The page of one service, the fragment that keeps it current, its pictures and its YAML."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.joint_inference.access import drift_of, joint_of
from app.joint_inference.model.resource import Role, Service
from app.joint_inference.model.tally import upload_share_key
from app.joint_inference.pages import rollout_views, sample_views, view_models
from app.joint_inference.pages.drift_rows import class_rows, score_rows
from app.joint_inference.pages.service_list import CHANNEL, url_of
from app.joint_inference.pages.yaml_text import editable, to_yaml
from app.joint_inference.service import TallyPoint
from app.joint_inference.service.collection import collection_folder
from app.joint_inference.service.hard_samples import KEPT_SAMPLES
from app.joint_inference.service.producers import producer_of_service
from app.kit.clock import now
from app.kit.text.json_values import number_in
from app.kit.web.auth import user_of
from app.kit.web.downloads import text_file
from app.kit.web.line_plot import Plot, over_time, time_plot
from app.kit.web.live_fragment import fragment, reloads_when_gone, version_of
from app.kit.web.sse import changes_of
from app.kit.web.templates import TemplateContext, render
from app.nodes.access import nodes_of
from app.nodes.model import Node
from app.results.access import results_of
from app.results.model.event import RuleEvent
from app.results.model.producer import Producer
from app.results.newest_picture import newest_picture
from app.results.store import RuleEventFilter

SHOWN_EVENTS = 30
SHOWN_RULE_EVENTS = 8
REDRAWN_S = 10
"""The fragment is drawn again after this time even if nothing was reported: nodes may have become silent."""
PICTURE_KINDS = frozenset({"image/jpeg", "image/png"})


def service_page(request: Request) -> Response:
    service = service_of(request)
    return render(
        request,
        "joint_inference/service.html",
        area="services",
        note=request.query_params.get("note", ""),
        **_build_body(request, service, now()),
        yaml=to_yaml(editable(service)),
    )


@reloads_when_gone
def live(request: Request) -> Response:
    """What changes by itself. 204 when that is what the page shows already (`seen`)."""
    service = service_of(request)
    return fragment(request, "joint_inference/_service_live.html", _build_body(request, service, now()))


def sample(request: Request) -> Response:
    """The picture that a model was shown. It never changes under its id."""
    path = request.path_params
    data, kind = joint_of(request).samples.picture(user_of(request), path["namespace"], path["name"], path["sample_id"])
    headers = {"Cache-Control": "private, max-age=3600", "Content-Security-Policy": "default-src 'none'; sandbox"}
    return Response(data, media_type=kind if kind in PICTURE_KINDS else "application/octet-stream", headers=headers)


def picture(request: Request) -> Response:
    """The newest hard sample, on which zones are drawn; a blank one while there is none."""
    service, samples = service_of(request), joint_of(request).samples
    origin = {key: request.query_params.get(key, "") for key in ("node", "source")}
    newest = samples.newest_picture(service, **origin)
    return newest_picture(*newest) if newest else newest_picture(None)


def download(request: Request) -> Response:
    service = service_of(request)
    return text_file(to_yaml(editable(service)), f"{service.name}.yaml", "application/yaml")


def service_of(request: Request) -> Service:
    path = request.path_params
    return joint_of(request).services.get(user_of(request), path["namespace"], path["name"])


def producer_in(request: Request) -> Producer:
    """Returns the service, as those who keep results see it."""
    return producer_of_service(service_of(request))


def _build_body(request: Request, service: Service, at: datetime) -> TemplateContext:
    joint, user = joint_of(request), user_of(request)
    drift = drift_of(request).get(user, service.namespace, service.name)
    series = joint.reports.series(service.uid)
    samples = joint.samples.of(user, service.namespace, service.name)[:KEPT_SAMPLES]
    placements = joint.services.placements(service)
    cloud = nodes_of(request).access.find_for(service.owner, service.specification.cloud.node)
    edges = [_build_worker(placed, Role.EDGE, node, at) for placed, node in placements]
    workers = [*edges, _build_worker(service, Role.CLOUD, cloud, at)]
    is_fleet = bool(service.specification.edge.selector)
    rules = results_of(request).rules
    rule_events = rules.events(producer_of_service(service), RuleEventFilter(), limit=SHOWN_RULE_EVENTS).events
    return {
        "service": service,
        "url": url_of(service.namespace, service.name),
        "specification": service.specification,
        "condition": view_models.condition_of(service),
        "warnings": view_models.warnings_of(service),
        "figures": view_models.figures_of(service.reported),
        "latency": latency_plot(series),
        "uploads": upload_plot(series),
        "workers": workers[-1:] if is_fleet else workers,
        "fleet": [rollout_views.fleet_node(worker) for worker in edges] if is_fleet else [],
        "is_fleet": is_fleet,
        "selector": service.specification.edge.place,
        "rollout": rollout_views.rollout_view(service, edges),
        "events": joint.services.events(user, service.namespace, service.name)[:SHOWN_EVENTS],
        "drift": drift,
        "scores": score_rows(drift),
        "classes": class_rows(drift),
        "collected": collection_folder(service),
        "samples": [sample_views.sample_view(sample) for sample in samples],
        "rule_events": rule_events,
        "seen": _digest_version(service, series, [sample.id for sample in samples], workers, rule_events, at),
    }


def _build_worker(service: Service, role: Role, node: Node | None, at: datetime) -> view_models.ServiceWorkerView:
    return view_models.worker_of(service, role, node, is_online=node is not None and node.is_online(at))


def _digest_version(
    service: Service,
    series: list[TallyPoint],
    samples: list[str],
    workers: list[view_models.ServiceWorkerView],
    rule_events: list[RuleEvent],
    at: datetime,
) -> str:
    """Names what is shown: equal while nothing would look different."""
    drawn = int(at.timestamp() // REDRAWN_S)
    reports = [(worker.is_online, worker.report) for worker in workers]
    return version_of(service.version, series[-1].at if series else "", samples, reports, rule_events, drawn)


ROUTES = [
    Route("/ui/services/{namespace}/{name}", service_page),
    Route("/ui/services/{namespace}/{name}/live", live),
    Route("/ui/services/{namespace}/{name}/events", changes_of(CHANNEL, guard=service_of)),
    Route("/ui/services/{namespace}/{name}/yaml", download),
    Route("/ui/services/{namespace}/{name}/picture", picture),
    Route("/ui/services/{namespace}/{name}/samples/{sample_id}", sample),
]


LATENCIES = (("edge-50", "edgeMsP50"), ("edge-95", "edgeMsP95"), ("cloud-50", "cloudMsP50"), ("cloud-95", "cloudMsP95"))


def latency_plot(points: Sequence[TallyPoint]) -> Plot | None:
    """Milliseconds; None while there is nothing to draw a line of."""
    return time_plot(
        {kind: over_time(points, partial(_get_value, key=key)) for kind, key in LATENCIES}, is_periodic=True
    )


def upload_plot(points: Sequence[TallyPoint]) -> Plot | None:
    """Percent: since the start, and of what was seen between two points."""
    since_start = over_time(points, lambda p: _get_value(p, upload_share_key(p.task_info)))
    between = []
    for (minutes, _), earlier, later in zip(since_start[1:], points, points[1:], strict=False):
        between.append((minutes, _compute_share(earlier, later)))
    return time_plot(
        {"upload-now": between, "upload-all": since_start}, top=1.0, times=100.0, ending="%", is_periodic=True
    )


def _get_value(point: TallyPoint, key: str) -> float | None:
    return number_in(point.task_info, key)


def _compute_share(earlier: TallyPoint, later: TallyPoint) -> float | None:
    """None when nothing was seen between them, or the counts started again."""
    seen, seen_later = _get_value(earlier, "inferenceNumber"), _get_value(later, "inferenceNumber")
    sent, sent_later = _get_uploaded(earlier), _get_uploaded(later)
    if seen is None or sent is None or seen_later is None or sent_later is None:
        return None
    if seen_later <= seen or sent_later < sent:
        return None
    return min(1.0, (sent_later - sent) / (seen_later - seen))


def _get_uploaded(point: TallyPoint) -> float | None:
    uploads = _get_value(point, "uploadNumber")
    return _get_value(point, "hardExampleNumber") if uploads is None else uploads
