"""The list of jobs: filter, order, page, saved views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.job_index import JobMatches, Sort
from app.conversion.model import JobRecord
from app.conversion.model.digest import STATES, VERDICTS, digest
from app.conversion.model.job_filter import KEYS, BadFilter, FilterExpression, parse
from app.conversion.pages import samples, view_models
from app.conversion.pages.job_list import (
    COOKIE,
    NAME_MAX,
    PAGE_JOBS,
    TABS,
    TEXT_MAX,
    VIEWS_MAX,
    JobListQuery,
    SavedView,
    cookie_text,
    list_url,
    read_saved_views,
)
from app.conversion.pages.results import reset_view
from app.conversion.service import Conversion
from app.kit.clock import from_text, now
from app.kit.errors import BadRequest
from app.kit.redis.change_hub import any_of
from app.kit.web.auth import user_of
from app.kit.web.common_pages import YEAR_S, see_other
from app.kit.web.http import query
from app.kit.web.page_actions import with_form
from app.kit.web.sse import changes_of
from app.kit.web.templates import TemplateContext, render

WORDS = {"status": STATES, "verdict": VERDICTS, "target": ("host",), "created": ("<1h", "<1d", "<7d")}
"""Completions by key; those of names, models and tags come from the user's own jobs."""
COMPLETIONS = 8


class ViewForm(BaseModel):
    """A view to save, or to delete."""

    name: Annotated[str, Field(min_length=1, max_length=NAME_MAX)]
    q: Annotated[str, Field(max_length=TEXT_MAX)] = ""
    action: Literal["save", "remove"] = "save"


def jobs(request: Request) -> Response:
    """Renders the list of jobs."""
    params, conversion, user = query(request, JobListQuery), conversion_of(request), user_of(request)
    matching, problem = _find_page(conversion, user, params)
    records = conversion.jobs.several(matching.job_ids, user)
    counts = conversion.index.counts(user, [text for _, text in TABS if text])
    return render(
        request,
        "conversion/jobs.html",
        area="jobs",
        query=params,
        problem=problem,
        total=matching.total,
        last_page=max(1, -(-matching.total // PAGE_JOBS)),
        tabs=[(name, list_url(q=text), counts.get(text)) for name, text in TABS],
        all_jobs=conversion.index.search(FilterExpression(), user, limit=1).total,
        views=read_saved_views(request),
        samples=[sample.name for sample in samples.list_installed()],
        sorts=Sort,
        newest=_find_newest(params, records),
        page_tags=sorted({tag for job in records for tag in job.tags}),
        **_build_rows(conversion, records),
        **reset_view(request),
        status_code=422 if problem else 200,
    )


def _find_page(conversion: Conversion, user: str, params: JobListQuery) -> tuple[JobMatches, BadFilter | None]:
    """Returns the page of jobs, and what is wrong with the filter if it is not valid."""
    try:
        required = parse(params.text, now=now())
    except BadFilter as error:
        return JobMatches(0, []), error
    meanwhile = _count_newer(conversion, user, params.text, params.seen) if params.is_newest_first else 0
    offset = params.offset + meanwhile
    matching = conversion.index.search(
        required, user, sort=params.sort, is_descending=params.is_descending, offset=offset, limit=PAGE_JOBS
    )
    return matching, None


def _find_newest(params: JobListQuery, records: Sequence[JobRecord]) -> str:
    """Returns when the newest job was created if this is the first page of the newest jobs; empty otherwise."""
    return records[0].created_at if params.is_newest_first and params.page == 1 and records else ""


def live(request: Request) -> Response:
    """Sends the cells of those rows that had not finished, which of them to ask for again, and how many newer jobs
    there are. After a reset, the page is loaded again."""
    conversion, user = conversion_of(request), user_of(request)
    began = conversion.jobs.store.began_at()
    if request.query_params.get("began", began) != began:  # the open page lists jobs that no longer exist
        return Response(headers={"HX-Redirect": "/ui/jobs?note=restarted"})
    ids = request.query_params.get("ids", "").split(",")[:PAGE_JOBS]
    rows = _build_rows(conversion, conversion.jobs.several(ids, user))
    newest, text = request.query_params.get("newest", ""), request.query_params.get("q", "")[:TEXT_MAX]
    params = JobListQuery(q=text)
    news = _count_newer(conversion, user, text, newest)
    return render(request, "conversion/_jobs_live.html", **rows, began=began, newest=newest, query=params, news=news)


def _count_newer(conversion: Conversion, user: str, text: str, newest: str) -> int:
    try:
        moment = from_text(newest).timestamp()
        required = parse(text, now=now())
    except (ValueError, BadFilter):
        return 0
    return conversion.index.search(required.newer_than(moment), user, limit=1).total


def running(request: Request) -> Response:
    """Sends the number of the user's unfinished jobs, for the navigation of every page."""
    counts = conversion_of(request).index.counts(user_of(request), ["status:running"])
    return render(request, "conversion/_running.html", count=counts["status:running"])


def completions(request: Request) -> Response:
    """Sends completions of the word that is being typed in the filter, as options of its list."""
    text = request.query_params.get("q", "")[-TEXT_MAX:]
    before, _, word = text.rpartition(" ")
    key, colon, beginning = word.partition(":")
    if not colon:
        offered = [f"{name}:" for name in KEYS if name.startswith(word.lower())]
    else:
        known = WORDS.get(key) or conversion_of(request).index.completions(
            user_of(request), key, beginning.lower(), at_most=COMPLETIONS
        )
        offered = [f"{key}:{value}" for value in known if value.startswith(beginning.lower())]
    lead = f"{before} " if before else ""
    return render(request, "conversion/_filter_options.html", options=[lead + one for one in offered[:COMPLETIONS]])


@with_form(ViewForm)
def view(request: Request, given: ViewForm) -> Response:
    """Saves the filter under a name, or deletes a saved one, in a cookie of this browser."""
    others = [saved for saved in read_saved_views(request) if saved.name != given.name]
    kept = [*others, SavedView(given.name, given.q)] if given.action == "save" else others
    if len(kept) > VIEWS_MAX:
        raise BadRequest(f"{VIEWS_MAX} views are the most.", hint="Remove one that you no longer need.")
    response = see_other(list_url(q=given.q))
    response.set_cookie(COOKIE, cookie_text(kept), max_age=YEAR_S, samesite="lax", httponly=True, path="/ui")
    return response


def _build_rows(conversion: Conversion, records: Sequence[JobRecord]) -> TemplateContext:
    return {
        "jobs": records,
        "digests": {job.job_id: digest(job) for job in records},
        "active": [job.job_id for job in records if not job.is_terminal],
        "ahead": {job.job_id: conversion.jobs.queue_position(job) for job in records if not job.is_terminal},
        "took": {job.job_id: view_models.took_s(job) for job in records},
    }


ROUTES = [
    Route("/ui/jobs", jobs),
    Route("/ui/jobs/live", live),
    Route("/ui/jobs/events", changes_of(any_of("job"))),
    Route("/ui/jobs/running", running),
    Route("/ui/jobs/completions", completions),
    Route("/ui/jobs/views", view, methods=["POST"]),
]
