"""What would be, if: each cut of a DAG between edge and cloud under bandwidths and loads that the reader chooses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import now
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject
from app.kit.web import charts
from app.kit.web.auth import user_of
from app.kit.web.editor import Problems
from app.kit.web.http import is_fragment
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import TemplateContext, render
from app.video.access import video_of
from app.video.model.dag_inputs import dag_of, wire_inputs
from app.video.model.job import StageHost, VideoJob
from app.video.model.kinds import SINGLE_FRAME
from app.video.model.plan import RESOLUTIONS, VideoConf
from app.video.pages import job_document, new_form, view_models
from app.video.pages.job import job_of
from app.video.pages.job_list import facts_of_videos, url_of
from app.video.pages.new import kinds_of, nodes_of, only_video
from app.video.scheduling.contract import NodeInfo
from app.video.scheduling.predictor import Prediction

MAX_BYTES = 200_000
NUMBERS = ("up_mbps", "down_mbps", "cpu_ratio")
SIZES = ("0", "1", "2")


@dataclass(frozen=True)
class NodeFields:
    """A node, and how it is now; None: not known."""

    name: str
    role: str
    online: bool
    up_mbps: float | None
    down_mbps: float | None
    cpu_ratio: float | None


@dataclass(frozen=True)
class WhatIfRow:
    """A prediction."""

    prediction: Prediction
    lanes: Mapping[str, str]
    nodes: list[str]
    """Those that stages run on, by their names, otherwise by their addresses."""
    bar: Markup
    """Its delay against the slowest's."""
    is_present: bool
    """The plan in force has this cut."""
    is_late: bool


def of_job(request: Request) -> Response:
    """The fields may come with the query; what is not said is as it is now."""
    return _render_answer(request, dict(request.query_params), job_of(request))


@with_fields(MAX_BYTES, "A question")
def ask_of_job(request: Request, sent: dict[str, str]) -> Response:
    return _render_answer(request, sent, job_of(request))


def of_any(request: Request) -> Response:
    return _render_answer(request, dict(request.query_params), None)


@with_fields(MAX_BYTES, "A question")
def ask_of_any(request: Request, sent: dict[str, str]) -> Response:
    return _render_answer(request, sent, None)


def _render_answer(request: Request, sent: Mapping[str, str], job: VideoJob | None) -> Response:
    values = {"model_id": _find_current_size(job), **{name: value.strip() for name, value in sent.items()}}
    if job is None and "dag" not in sent:
        values |= {"video": values.get("video") or only_video(request), "dag": _make_example(request)}
    nodes = _list_nodes(request, values, job)
    rows: list[WhatIfRow] = []
    problems: Problems = {}
    error: ModelmillError | None = None
    body = _build_body(values, nodes, job, problems)
    if body is not None and not problems:
        try:
            rows = _make_rows(video_of(request).planning.what_if(user_of(request), body, now=now()), job)
        except ModelmillError as refusal:
            error = refusal
    node, _, video = values.get("video", "").partition("/")
    source = job.generator_output if job else facts_of_videos(request, now()).get((node, video), {})
    context: TemplateContext = {
        "is_rate_known": bool(source.get("fps")),
        "job": job,
        "values": values,
        "nodes": nodes,
        "rows": rows,
        "problems": problems,
        "error": error,
        "url": url_of(job.uid, "/what-if") if job else "/ui/video/what-if",
        "is_submitted": body is not None,
        "hi": job.constraint.hi if job else None,
    }
    if is_fragment(request):
        return render(request, "video/_what_if_rows.html", **context)
    status = error.status if error else 422 if problems else 200
    return render(
        request,
        "video/what_if.html",
        status,
        area="video",
        resolutions=RESOLUTIONS,
        sizes=SIZES,
        job_url=url_of(job.uid) if job else "",
        videos=nodes_of(request),
        **context,
    )


def _make_example(request: Request) -> str:
    """A DAG to start with; empty while there are no stages."""
    kinds = kinds_of(request)
    stages = new_form.example_of(kinds) or tuple(kinds)[:1]
    return (
        job_document.to_text(dag_of(SINGLE_FRAME.name, stages, wire_inputs(SINGLE_FRAME.name, stages, kinds, {})))
        if stages
        else ""
    )


def _find_current_size(job: VideoJob | None) -> str:
    """The biggest in use, as model_id; of no plan the big one."""
    places = job.plan.flow_mapping.values() if job is not None and job.plan is not None else ()
    return str(min((place.model_id for place in places), default=0))


def _list_nodes(request: Request, values: Mapping[str, str], job: VideoJob | None) -> list[NodeFields]:
    resources = video_of(request).resources
    if job is not None:
        return [_of_info(info) for info in resources.info(job, now()).values()]
    node = values.get("video", "").partition("/")[0]
    return [_of_host(host) for host in resources.hosts(user_of(request), node, now())] if node else []


def _of_info(info: NodeInfo) -> NodeFields:
    return NodeFields(info["node"], info["role"], info["online"], info["up_mbps"], info["down_mbps"], info["cpu_ratio"])


def _of_host(host: StageHost) -> NodeFields:
    return NodeFields(host.node, host.role, online=True, up_mbps=None, down_mbps=None, cpu_ratio=None)


def _build_body(
    values: Mapping[str, str], nodes: list[NodeFields], job: VideoJob | None, problems: Problems
) -> JsonObject | None:
    """As Planning.what_if takes it; None while nothing was chosen yet."""
    changed = {node.name: _of_node(values, node, problems) for node in nodes}
    body: JsonObject = {"nodes": {name: facts for name, facts in changed.items() if facts}}
    conf: JsonObject = {}
    if values.get("resolution"):
        conf["resolution"] = values["resolution"]
    fps = _read_number(values, "fps", problems)
    if fps is not None:
        conf["fps"] = fps
    if conf:
        present = job.plan.video_conf if job is not None and job.plan is not None else VideoConf()
        body["video_conf"] = {**present.to_json(), **conf}
    if values["model_id"] in SIZES:
        body["model_id"] = int(values["model_id"])
    if job is not None:
        return {**body, "job_uid": job.uid}
    return _with_dag(values, body, problems)


def _with_dag(values: Mapping[str, str], body: JsonObject, problems: Problems) -> JsonObject | None:
    node, _, video = values.get("video", "").partition("/")
    if not node or not values.get("dag"):
        return None
    try:
        return {**body, "node": node, "video_id": video, "dag": job_document.parse_body(values["dag"])}
    except ValueError as error:
        problems["dag"] = str(error)
        return None


def _of_node(values: Mapping[str, str], node: NodeFields, problems: Problems) -> JsonObject:
    fields: JsonObject = {}
    for what in NUMBERS:
        value = _read_number(values, f"{what}.{node.name}", problems)
        if value is not None:
            fields[what] = value / 100 if what == "cpu_ratio" else value
    online = values.get(f"online.{node.name}")
    if online in ("yes", "no"):
        fields["online"] = online == "yes"
    return fields


def _read_number(values: Mapping[str, str], name: str, problems: Problems) -> float | None:
    text = values.get(name, "")
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1_000_000:
        problems[name] = text
        return None
    return number


def _make_rows(predictions: list[Prediction], job: VideoJob | None) -> list[WhatIfRow]:
    slowest = max((one.delay_s for one in predictions), default=1.0)
    present = job.plan.to_json()["flow_mapping"] if job is not None and job.plan is not None else None
    hi = job.constraint.hi if job else None
    return [
        WhatIfRow(
            one,
            view_models.lanes_of(one.flow_mapping),
            list(dict.fromkeys(str(place.get("node") or place.get("node_ip")) for place in one.flow_mapping.values())),
            charts.bar(one.delay_s, slowest, rule=hi),
            present is not None and are_same_places(one.flow_mapping, present),
            hi is not None and one.delay_s > hi,
        )
        for one in predictions
    ]


def are_same_places(one: Mapping[str, Mapping[str, Any]], other: Mapping[str, Mapping[str, Any]]) -> bool:
    """Returns whether each stage runs on the same node, whatever its model. Nodes may share an address."""
    return one.keys() == other.keys() and all(_is_same_place(one[stage], other[stage]) for stage in one)


def _is_same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    names = {name for place in (one, other) if (name := place.get("node"))}
    return len(names) < 2 and all(one.get(key) == other.get(key) for key in ("node_role", "node_ip"))


ROUTES = [
    Route("/ui/video/what-if", of_any),
    Route("/ui/video/what-if", ask_of_any, methods=["POST"]),
    Route("/ui/video/{uid}/what-if", of_job),
    Route("/ui/video/{uid}/what-if", ask_of_job, methods=["POST"]),
]
