"""The endpoints of rules and their events under /api/v2/video/jobs/{job_uid}, and OPERATIONS, their table of routes."""

from __future__ import annotations

import re

from starlette.requests import Request
from starlette.responses import Response

from app.kit.web.auth import user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations
from app.video import rule_schemas as schemas
from app.video.access import uid_of, video_of
from app.video.job_endpoints import PICTURE_HEADERS
from app.video.responses import JOBS, place_of
from app.video.schemas import UID

EVENT_ID = re.compile(r"[1-9][0-9]{0,9}", re.ASCII)
_ONE = f"{JOBS}/{{job_uid}}"
OPERATIONS = Operations(
    {"event_id": {"type": "string", "pattern": f"^{EVENT_ID.pattern}$"}, "job_uid": {"type": "string", "pattern": UID}}
)


@OPERATIONS.add(
    "GET", f"{_ONE}/rules", "Its zones, and what of its detections makes an event", {200: schemas.RulesAnswer}
)
def get_rules(request: Request) -> Response:
    return json_answer(schemas.rules_answer(video_of(request).rules.get(user_of(request), uid_of(request))))


@OPERATIONS.add(
    "PUT",
    f"{_ONE}/rules",
    "Other zones and rules, in place of all that it has",
    {200: schemas.RulesAnswer},
    more_errors=(409,),
    body=schemas.RulesBody,
)
def put_rules(request: Request, body: schemas.RulesBody) -> Response:
    saved = video_of(request).rules.put(user_of(request), uid_of(request), body.rule_set())
    return json_answer(schemas.rules_answer(saved))


@OPERATIONS.add(
    "GET",
    f"{_ONE}/rule-events",
    "When its rules held, newest first",
    {200: schemas.RuleEventsAnswer},
    query=schemas.RuleEventQuery,
)
def list_rule_events(request: Request, params: schemas.RuleEventQuery) -> Response:
    uid = uid_of(request)
    page = video_of(request).rules.events(
        user_of(request),
        uid,
        params.chosen(),
        cursor=params.cursor,
        newest_first=params.order == "desc",
        limit=params.limit,
    )
    return json_answer(schemas.rule_events_answer(place_of(uid), page))


@OPERATIONS.add(
    "GET", f"{_ONE}/rule-events/{{event_id}}/picture", "The picture that is kept of an event", {200: ("image/jpeg",)}
)
def rule_event_picture(request: Request) -> Response:
    text = str(request.path_params["event_id"])
    event_id = int(text) if EVENT_ID.fullmatch(text) else 0
    picture = video_of(request).rules.picture(user_of(request), uid_of(request), event_id)
    return Response(picture, media_type="image/jpeg", headers=PICTURE_HEADERS)
