"""The endpoints of rules and their events under /api/v2/video/jobs/{job_uid}, and OPERATIONS, their table of routes."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.web.auth import user_of
from app.kit.web.http import json_answer, json_body, query
from app.kit.web.openapi import Operation
from app.video import rule_schemas as schemas
from app.video.access import uid_of, video_of
from app.video.endpoints import PICTURE_HEADERS
from app.video.responses import JOBS, place_of
from app.video.schemas import UID


def get_rules(request: Request) -> Response:
    return json_answer(schemas.rules_answer(video_of(request).rules.get(user_of(request), uid_of(request))))


async def put_rules(request: Request) -> Response:
    body, rules = await json_body(request, schemas.RulesBody), video_of(request).rules
    saved = await run_in_threadpool(rules.put, user_of(request), uid_of(request), body.rule_set())
    return json_answer(schemas.rules_answer(saved))


def list_rule_events(request: Request) -> Response:
    criteria, uid = query(request, schemas.RuleEventQuery), uid_of(request)
    page = video_of(request).rules.events(
        user_of(request),
        uid,
        criteria.chosen(),
        cursor=criteria.cursor,
        newest_first=criteria.order == "desc",
        limit=criteria.limit,
    )
    return json_answer(schemas.rule_events_answer(place_of(uid), page))


def rule_event_picture(request: Request) -> Response:
    event_id = int(request.path_params["event_id"])
    picture = video_of(request).rules.picture(user_of(request), uid_of(request), event_id)
    return Response(picture, media_type="image/jpeg", headers=PICTURE_HEADERS)


_ONE = f"{JOBS}/{{job_uid}}"
_UID = {"job_uid": {"type": "string", "pattern": UID}}
_EVENT_ID = {"event_id": {"type": "integer", "minimum": 1, "maximum": (1 << 31) - 1}}

OPERATIONS: list[Operation] = [
    Operation(
        "GET",
        f"{_ONE}/rules",
        get_rules,
        "Its zones, and what of its detections makes an event",
        {200: schemas.RulesAnswer},
        errors=(404, 503),
        parameters=_UID,
    ),
    Operation(
        "PUT",
        f"{_ONE}/rules",
        put_rules,
        "Other zones and rules, in place of all that it has",
        {200: schemas.RulesAnswer},
        errors=(400, 404, 409, 413, 422, 503),
        body=schemas.RulesBody,
        parameters=_UID,
    ),
    Operation(
        "GET",
        f"{_ONE}/rule-events",
        list_rule_events,
        "When its rules held, newest first",
        {200: schemas.RuleEventsAnswer},
        errors=(404, 422, 503),
        query=schemas.RuleEventQuery,
        parameters=_UID,
    ),
    Operation(
        "GET",
        f"{_ONE}/rule-events/{{event_id:int}}/picture",
        rule_event_picture,
        "The picture that is kept of an event",
        {200: ("image/jpeg",)},
        errors=(404, 503),
        parameters={**_UID, **_EVENT_ID},
    ),
]
