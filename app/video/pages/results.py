"""The page of a job's results: all rows that are kept, by time, class and score, with their counts over time."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.clock import to_text
from app.kit.errors import BadInput
from app.kit.web.auth import user_of
from app.kit.web.http import query
from app.kit.web.line_plot import over_time, time_plot
from app.kit.web.templates import render
from app.video.access import video_of
from app.video.model.frame_result import ResultFilter
from app.video.pages.job_list import url_of
from app.video.schemas import RowQuery, filter_of

SHOWN = 100
COUNTED = 1000
"""Rows that the plot is drawn of: the newest that fit."""


def results(request: Request) -> Response:
    user, uid = user_of(request), request.path_params["uid"]
    video = video_of(request)
    job = video.jobs.get(user, uid)
    criteria, problem = RowQuery(), ""
    try:
        criteria = query(request, RowQuery)
    except BadInput as error:
        problem = error.message
    chosen = filter_of(criteria)
    shown = video.results.page(user, uid, chosen, cursor=criteria.cursor, newest_first=True, limit=SHOWN)
    counted = video.results.page(user, uid, chosen, newest_first=True, limit=COUNTED).records[::-1]
    return render(
        request,
        "video/results.html",
        422 if problem else 200,
        area="video",
        job=job,
        job_url=url_of(job.uid),
        criteria=criteria,
        problem=problem,
        records=shown.records,
        older=_url(job.uid, criteria, cursor=shown.cursor) if shown.cursor is not None else "",
        plot=time_plot({"objects": over_time(counted, lambda record: float(record.object_count))}),
        names=sorted({name for record in shown.records for name in record.counts}),
        download=_query_of(criteria),
        is_filtered=chosen != ResultFilter(),
    )


def _query_of(criteria: RowQuery, **change: Any) -> str:
    values = {
        "since": to_text(criteria.since) if criteria.since else "",
        "until": to_text(criteria.until) if criteria.until else "",
        "label": criteria.label,
        "min_score": criteria.min_score,
        **change,
    }
    return urlencode({name: value for name, value in values.items() if value not in ("", None)})


def _url(uid: str, criteria: RowQuery, **change: Any) -> str:
    return f"/ui/video/{uid}/results?{_query_of(criteria, **change)}"


ROUTES = [Route("/ui/video/{uid}/results", results)]
