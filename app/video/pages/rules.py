"""The page of a job's rules: zones on its picture, what makes an event, and the events."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.kit.errors import ModelmillError, NotFound
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.editor import Problems
from app.kit.web.http import query
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import render
from app.results.model.frame_result import labels_in
from app.video.access import video_of
from app.video.job_endpoints import PICTURE_HEADERS
from app.video.model.job import JobState, VideoJob
from app.video.model.rule import Rule, RuleSet
from app.video.model.rule_evaluation import size_of_row
from app.video.pages.job import job_of
from app.video.pages.job_list import url_of
from app.video.pages.new_form import text_of
from app.video.rule_schemas import RuleBody, RuleEventQuery, ZoneBody

SHOWN = 50
MAX_BYTES = 10_000
USUAL_SIZE = (1600.0, 900.0)
"""Of a picture whose size nobody has said yet; zones are drawn on it."""
EMPTY_ZONE = {"zone_name": "", "points": ""}
SENTENCES = {
    "name": "bad_name",
    "points": "bad_points",
    **dict.fromkeys(("min_score", "at_least", "dwell_s", "frames", "cooldown_s"), "bad_number"),
}
"""What is said of a field that is wrong: see problem_text in _fields.html."""
BY_FIELD = {"name": "zone_name", "points": "points"}


class PageQuery(RuleEventQuery):
    edit: Annotated[str, BeforeValidator(lambda text: text[:64])] = ""
    """Name of the rule that the form holds."""
    note: Annotated[str, BeforeValidator(lambda text: text[:20])] = ""


def rules(request: Request) -> Response:
    criteria = query(request, PageQuery)
    job = job_of(request)
    kept = video_of(request).rules.get(user_of(request), job.uid).rule_set
    rule = next((one for one in kept.rules if one.name == criteria.edit), None)
    values = {**EMPTY_ZONE, **values_of(rule or Rule(""))}
    return _page(request, job, values, criteria=criteria)


@with_fields(MAX_BYTES, "A zone")
def save_zone(request: Request, sent: dict[str, str]) -> Response:
    values = {**EMPTY_ZONE, **{name: sent.get(name, "").strip() for name in EMPTY_ZONE}}
    given = {"name": values["zone_name"], "points": [pair.split(",") for pair in values["points"].split()]}
    body, problems = _read(ZoneBody, given)
    problems = {BY_FIELD[field]: problem for field, problem in problems.items()}

    def change(rule_set: RuleSet) -> RuleSet:
        return rule_set.with_zone(body.zone()) if body else rule_set

    return _changed(request, {**values_of(Rule("")), **values}, change, problems, "points")


@with_fields(MAX_BYTES, "A rule")
def save_rule(request: Request, sent: dict[str, str]) -> Response:
    values = {name: sent.get(name, "").strip() for name in values_of(Rule(""))}
    body, problems = _read(RuleBody, {name: text for name, text in values.items() if text})

    def change(rule_set: RuleSet) -> RuleSet:
        return rule_set.with_rule(body.rule()) if body else rule_set

    return _changed(request, {**EMPTY_ZONE, **values}, change, problems, "name")


@with_fields(MAX_BYTES, "A name")
def remove_zone(request: Request, sent: dict[str, str]) -> Response:
    return _removed(request, sent, RuleSet.without_zone)


@with_fields(MAX_BYTES, "A name")
def remove_rule(request: Request, sent: dict[str, str]) -> Response:
    return _removed(request, sent, RuleSet.without_rule)


def picture(request: Request) -> Response:
    uid, event_id = request.path_params["uid"], int(request.path_params["event_id"])
    jpeg = video_of(request).rules.picture(user_of(request), uid, event_id)
    return Response(jpeg, media_type="image/jpeg", headers=PICTURE_HEADERS)


def values_of(rule: Rule) -> dict[str, str]:
    """Of a rule, as the fields of the form hold it."""
    return {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in vars(rule).items()}


def _removed(request: Request, sent: Mapping[str, str], without: Callable[[RuleSet, str], RuleSet]) -> Response:
    values = {**EMPTY_ZONE, **values_of(Rule(""))}

    def change(rule_set: RuleSet) -> RuleSet:
        return without(rule_set, sent.get("name", ""))

    return _changed(request, values, change, {}, "")


def _read(model: type[BaseModel], given: Mapping[str, Any]) -> tuple[Any, Problems]:
    try:
        return model.model_validate(given), {}
    except ValidationError as error:
        return None, {str(one["loc"][0]): SENTENCES.get(str(one["loc"][0]), one["msg"]) for one in error.errors()}


def _changed(
    request: Request,
    values: Mapping[str, str],
    change: Callable[[RuleSet], RuleSet],
    problems: Problems,
    field: str,
) -> Response:
    """To the page, or with what is wrong to the form. field: where what does not fit together is said."""
    job, status = job_of(request), 422
    if not problems:
        try:
            video_of(request).rules.change(user_of(request), job.uid, change)
            return see_other(f"{url_of(job.uid)}/rules?note=saved")
        except NotFound:
            raise
        except ModelmillError as error:
            problems, status = {field: text_of(error)}, error.status
    return _page(request, job, values, problems=problems, status=status)


def _page(
    request: Request,
    job: VideoJob,
    values: Mapping[str, str],
    *,
    criteria: PageQuery | None = None,
    problems: Problems | None = None,
    status: int = 200,
) -> Response:
    user, video, criteria = user_of(request), video_of(request), criteria or PageQuery()
    kept = video.rules.get(user, job.uid)
    page = video.rules.events(user, job.uid, criteria.chosen(), cursor=criteria.cursor, limit=SHOWN)
    newest = job.results[-1] if job.results else {}
    return render(
        request,
        "video/rules.html",
        status,
        area="video",
        job=job,
        url=url_of(job.uid),
        is_over=job.state is JobState.DONE,
        kept=kept.rule_set,
        problem=kept.problem,
        size=size_of_row(newest) or USUAL_SIZE,
        labels=sorted({label for row in job.results for label in labels_in(row)}),
        values=values,
        problems=problems or {},
        events=page.events,
        rule_filter=criteria.rule,
        older=page.cursor,
        note=criteria.note,
    )


ROUTES = [
    Route("/ui/video/{uid}/rules", rules),
    Route("/ui/video/{uid}/rules", save_rule, methods=["POST"]),
    Route("/ui/video/{uid}/rules/remove", remove_rule, methods=["POST"]),
    Route("/ui/video/{uid}/zones", save_zone, methods=["POST"]),
    Route("/ui/video/{uid}/zones/remove", remove_zone, methods=["POST"]),
    Route("/ui/video/{uid}/rule-events/{event_id:int}/picture", picture),
]
