"""The page of one video job, the fragment that keeps it current, and its newest snapshot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import from_text, now
from app.kit.errors import ModelmillError
from app.kit.text.json_values import number_in
from app.kit.web.auth import user_of
from app.kit.web.line_plot import Plot, over_time, round_up, time_plot, values_of
from app.kit.web.live_fragment import fragment, reloads_when_gone, version_of
from app.kit.web.sse import change_stream
from app.kit.web.templates import TemplateContext, render
from app.results.access import results_of
from app.results.model.producer import Producer
from app.results.newest_picture import newest_picture
from app.results.store import RuleEventFilter
from app.video.access import video_of
from app.video.errors import NoPicture
from app.video.model.job import NO_SIGNAL, JobState, VideoJob
from app.video.model.plan import Plan
from app.video.pages import dag_layout, decision_views, view_models
from app.video.pages.decision_views import DecisionView, PlanChange
from app.video.pages.job_list import CHANNEL, facts_of_videos, url_of
from app.video.pages.view_models import quality_of
from app.video.scheduling.registry import policies
from app.video.scheduling.source_limits import within_source
from app.video.service import SeriesPoint
from app.video.service.producers import producer_of_job

SHOWN_EVENTS = 50
SHOWN_RULE_EVENTS = 8
SHOWN_DECISIONS = 40
READ_DECISIONS = 300
REDRAWN_S = 10
"""The fragment is drawn again after this time even if nothing was reported: the node may have become silent."""


def job_page(request: Request) -> Response:
    job = job_of(request)
    return render(
        request,
        "video/job.html",
        area="video",
        note=request.query_params.get("note", ""),
        dag_text=json.dumps(job.dag.to_json(), indent=2, ensure_ascii=False),
        **body_of(request, job, now()),
    )


@reloads_when_gone
def live(request: Request) -> Response:
    """What changes by itself. 204 when that is what the page shows already (`seen`)."""
    job = job_of(request)
    return fragment(request, "video/_job_live.html", body_of(request, job, now()))


async def events(request: Request) -> Response:
    """`changed` at each change of the job; one that has ended has no stream."""
    job = await run_in_threadpool(job_of, request)
    return Response(status_code=204) if job.state is JobState.DONE else change_stream(request, f"{CHANNEL}:{job.uid}")


def snapshot(request: Request) -> Response:
    """The newest picture that came without being watched; a blank one while there is none."""
    try:
        return newest_picture(video_of(request).pictures.snapshot(user_of(request), request.path_params["uid"]))
    except NoPicture:
        return newest_picture(None)


def job_of(request: Request) -> VideoJob:
    return video_of(request).jobs.get(user_of(request), request.path_params["uid"])


def producer_in(request: Request) -> Producer:
    """Returns the job, as those who keep results see it."""
    return producer_of_job(job_of(request))


def body_of(request: Request, job: VideoJob, at: datetime) -> TemplateContext:
    video, user = video_of(request), user_of(request)
    view = view_models.view_of(job)
    series = video.reports.series(job.uid)
    job_events = video.jobs.events(user, job.uid)[::-1][:SHOWN_EVENTS]
    rules, producer = results_of(request).rules, producer_of_job(job)
    seen = rules.events(producer, RuleEventFilter(), limit=SHOWN_RULE_EVENTS).events
    log = video.jobs.decisions(user, job.uid, limit=READ_DECISIONS)
    decisions = decision_views.decisions_of(log)[:SHOWN_DECISIONS]
    marks = marks_of(series, decisions)
    is_live = not (view.is_over or view.measures or NO_SIGNAL in job.flags) and _is_live(request, job, at)
    return {
        "view": view,
        "job": job,
        "videos": facts_of_videos(request, at),
        "url": url_of(job.uid),
        "is_live": is_live,
        "drawing": drawing_of(job, view),
        "delays": delay_plot(series, marks),
        "rates": fps_plot(series, view.source_fps, marks),
        "qualities": quality_plot(series, marks),
        "decisions": decisions,
        "events": job_events,
        "rule_events": seen,
        "policies": policies(),
        "problems": {},
        "values": control_values(view),
        "saved": "",
        "seen": _digest_version(
            job, series[-1].at if series else "", (len(job_events), *map(vars, seen)), decisions, is_live, at
        ),
    }


def drawing_of(job: VideoJob, view: view_models.JobView) -> dag_layout.Drawing:
    times = {bar.stage: bar for bar in view.bars}
    computing = {
        stage: f"{_format_ms(bar.whole if bar.computing is None else bar.computing)} · " for stage, bar in times.items()
    }
    notes = {place.stage: computing.get(place.stage, "") + (place.node or place.ip) for place in view.placed}
    notes[job.dag.generator] = job.node
    ways = {stage: _format_ms(bar.way) for stage, bar in times.items() if bar.way > 0}
    return dag_layout.draw(job.dag, {place.stage: place.lane for place in view.placed}, notes, ways)


def _format_ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g} ms"


def control_values(view: view_models.JobView) -> dict[str, str]:
    """What the forms of the constraint and the policy hold."""
    constraint = view.job.constraint
    return {
        "delay_lo": f"{constraint.lo:g}" if constraint.lo >= 0 else "",
        "delay_hi": f"{constraint.hi:g}",
        "acc_level": str(view.level),
        "policy": view.job.policy,
        "name": view.job.name,
    }


def _is_live(request: Request, job: VideoJob, at: datetime) -> bool:
    try:
        return video_of(request).pictures.live(user_of(request), job.uid, now=at) is not None
    except ModelmillError:
        return False


def _digest_version(
    job: VideoJob,
    newest: str,
    events: object,
    decisions: list[decision_views.DecisionView],
    is_live: bool,
    at: datetime,
) -> str:
    """Names what is shown: equal while nothing would look different."""
    drawn = 0 if job.state is JobState.DONE else int(at.timestamp() // REDRAWN_S)
    decided = (decisions[0].decided.at, decisions[0].decided.seq) if decisions else ()
    return version_of(view_models.version_of(job), newest, events, len(decisions), decided, is_live, drawn)


ROUTES = [
    Route("/ui/video/{uid}", job_page),
    Route("/ui/video/{uid}/live", live),
    Route("/ui/video/{uid}/events", events),
    Route("/ui/video/{uid}/snapshot", snapshot),
]


PEAK, USUAL = 3.0, 0.9
"""A value is a peak when it is so many times higher than this share of all the values."""


Marks = Sequence[tuple[float, str]]
"""What happened, and when, in minutes before the last point."""


def marks_of(points: Sequence[SeriesPoint], decisions: Iterable[DecisionView]) -> Marks:
    """Where a decision changed the plan, and what it changed."""
    if not points:
        return ()
    last = from_text(points[-1].at)
    return [
        ((from_text(shown.decided.at) - last).total_seconds() / 60, ", ".join(map(_format_change, shown.changes)))
        for shown in decisions
        if shown.changes
    ]


def _format_change(change: PlanChange) -> str:
    return f"{change.stage or change.what} {change.before or '–'} → {change.after}"


def delay_plot(points: Sequence[SeriesPoint], marks: Marks = ()) -> Plot | None:
    """Milliseconds; None while there is nothing to draw a line of. Neither a short peak nor a limit far above flattens
    the rest: the one is cut, the other omitted."""
    limit = over_time(points, lambda point: 1000 * point.hi)
    delays = {kind: over_time(points, _make_reader(f"e2e_{kind}", 1000.0)) for kind in ("p50", "p95")}
    values = values_of(delays.values())
    if not values:
        return None
    top = without_peaks(values)
    highest = max(values_of([limit]))
    if highest <= PEAK * top:
        top, delays = max(top, highest), {"hi": limit, **delays}
    return time_plot(delays, top=round_up(top), marks=marks, is_periodic=True)


def without_peaks(values: Sequence[float]) -> float:
    """How high a plot of them is to be: the highest, or less where it is far above most."""
    in_order = sorted(values)
    return min(in_order[-1], PEAK * in_order[int(USUAL * (len(in_order) - 1))])


def fps_plot(points: Sequence[SeriesPoint], source_fps: float | None, marks: Marks = ()) -> Plot | None:
    """What was processed and what was planned: at most what the source gives, and nothing while that is not known."""

    def read_planned(point: SeriesPoint) -> float | None:
        conf = Plan.from_json(point.plan).video_conf if point.plan and source_fps else None
        return within_source(conf, {"fps": source_fps}).processed_fps if conf else None

    rates = {"wanted": over_time(points, read_planned), "fps": over_time(points, _make_reader("fps"))}
    if not values_of([rates["fps"]]):
        return None
    return time_plot(rates, top=round_up(without_peaks(values_of(rates.values()))), marks=marks, is_periodic=True)


def quality_plot(points: Sequence[SeriesPoint], marks: Marks = ()) -> Plot | None:
    """Percent."""

    def read(point: SeriesPoint) -> float | None:
        quality = quality_of(point.plan_result)
        return None if quality is None else 100 * quality

    return time_plot({"quality": over_time(points, read)}, top=100.0, marks=marks, is_periodic=True)


def _make_reader(key: str, times: float = 1.0) -> Callable[[SeriesPoint], float | None]:
    def read(point: SeriesPoint) -> float | None:
        value = number_in(point.plan_result, key)
        return None if value is None else times * value

    return read
