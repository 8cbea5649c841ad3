"""What there is, and what would be: the endpoints of /api/v2/video that are about no job."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.access import read_allowed
from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.http import json_body, query
from app.video import responses, schemas
from app.video.access import json_answer, measurements_of, require_admin, video_of
from app.video.model.kinds import StageSpec
from app.video.scheduling.contract import DEFAULT
from app.video.scheduling.registry import policies


# --- what there is ----------------------------------------------------------------------------------
def list_videos(request: Request) -> Response:
    return json_answer(responses.nodes(video_of(request).resources.videos(user_of(request), now())))


def list_kinds(request: Request) -> Response:
    return json_answer(responses.kinds(video_of(request).catalogue.kinds()))


def list_policies(_: Request) -> Response:
    return json_answer(schemas.PoliciesAnswer(policies=policies(), default=DEFAULT))


def list_stages(request: Request) -> Response:
    found = video_of(request).catalogue.seen_by(user_of(request))
    return json_answer(schemas.StagesAnswer(stages=[responses.stage(spec, pinned) for spec, pinned in found]))


async def put_stage(request: Request) -> Response:
    require_admin(request)
    asked, name = await json_body(request, schemas.NewStage), str(request.path_params["name"])
    models = tuple((names,) if isinstance(names, str) else tuple(names) for names in asked.models)
    spec = StageSpec(name, asked.kind, models, asked.parameters)
    pinned = await run_in_threadpool(video_of(request).catalogue.put, user_of(request), spec, now=now())
    return json_answer(responses.stage(spec, pinned))


def get_stage_access(request: Request) -> Response:
    require_admin(request)
    allowed = video_of(request).catalogue.allowed(str(request.path_params["name"]))
    return json_answer(schemas.StageAccess(allowed=allowed.to_json()))


async def put_stage_access(request: Request) -> Response:
    require_admin(request)
    asked, name = await json_body(request, schemas.StageAccess), str(request.path_params["name"])
    allowed = read_allowed(asked.allowed)
    await run_in_threadpool(video_of(request).catalogue.permit, name, allowed, by=user_of(request))
    return json_answer(schemas.StageAccess(allowed=allowed.to_json()))


def remove_stage(request: Request) -> Response:
    require_admin(request)
    video_of(request).catalogue.remove(str(request.path_params["name"]))
    return Response(status_code=204)


# --- what would be ----------------------------------------------------------------------------------
async def what_if(request: Request) -> Response:
    asked = await json_body(request, schemas.WhatIf)
    body = asked.model_dump(exclude_none=True)
    if "video_id" in body:
        body["video_id"] = str(body["video_id"])
    found = await run_in_threadpool(video_of(request).planning.what_if, user_of(request), body, now=now())
    return json_answer(responses.predictions(found))


def list_measurements(request: Request) -> Response:
    asked = query(request, schemas.MeasurementQuery)
    found = measurements_of(request, node=asked.node, stage=asked.stage)
    return json_answer(schemas.MeasurementsAnswer(measurements=[one.to_json() for one in found]))
