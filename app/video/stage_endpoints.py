"""The endpoints of /api/v2/video about the resources of jobs: nodes, kinds, policies, stages, and profiles."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.kit.access import read_allowed
from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations
from app.video import responses, schemas, stage_schemas
from app.video.access import measurements_of, require_admin, video_of
from app.video.model.kinds import StageSpec
from app.video.responses import VIDEO
from app.video.scheduling.contract import DEFAULT
from app.video.scheduling.registry import policies

OPERATIONS = Operations({"name": {"type": "string", "pattern": schemas.NAME}})


@OPERATIONS.get(f"{VIDEO}/nodes", "List the nodes that have videos", stage_schemas.NodesAnswer)
def list_videos(request: Request) -> Response:
    return json_answer(responses.nodes(video_of(request).resources.videos(user_of(request), now())))


@OPERATIONS.get(f"{VIDEO}/kinds", "List the kinds of stages with their inputs and outputs", stage_schemas.KindsAnswer)
def list_kinds(request: Request) -> Response:
    return json_answer(responses.kinds(video_of(request).catalogue.kinds()))


@OPERATIONS.get(f"{VIDEO}/policies", "List the scheduling policies", stage_schemas.PoliciesAnswer)
def list_policies(_: Request) -> Response:
    return json_answer(stage_schemas.PoliciesAnswer(policies=policies(), default=DEFAULT))


@OPERATIONS.get(f"{VIDEO}/stages", "List the stages that a DAG can use", stage_schemas.StagesAnswer)
def list_stages(request: Request) -> Response:
    stages = video_of(request).catalogue.seen_by(user_of(request))
    listed = [responses.stage(each.spec, each.stage, each.problem) for each in stages]
    return json_answer(stage_schemas.StagesAnswer(stages=listed))


@OPERATIONS.put(
    f"{VIDEO}/stages/{{name}}",
    "Add or replace a stage (administrators)",
    stage_schemas.StageAnswer,
    errors=(400, 413, 422, 503),
    guard=require_admin,
)
def put_stage(request: Request, name: str, body: stage_schemas.NewStage) -> Response:
    models = tuple((names,) if isinstance(names, str) else tuple(names) for names in body.models)
    spec = StageSpec(name, body.kind, models, body.parameters)
    pinned = video_of(request).catalogue.put(user_of(request), spec, now=now())
    return json_answer(responses.stage(spec, pinned))


@OPERATIONS.get(
    f"{VIDEO}/stages/{{name}}/access",
    "Get who may use a stage (administrators)",
    stage_schemas.StageAccess,
    more_errors=(403,),
)
def get_stage_access(request: Request, name: str) -> Response:
    require_admin(request)
    allowed = video_of(request).catalogue.allowed(name)
    return json_answer(stage_schemas.StageAccess(allowed=allowed.to_json()))


@OPERATIONS.put(
    f"{VIDEO}/stages/{{name}}/access",
    "Set who may use a stage (administrators)",
    stage_schemas.StageAccess,
    more_errors=(403,),
    guard=require_admin,
)
def put_stage_access(request: Request, name: str, body: stage_schemas.StageAccess) -> Response:
    allowed = read_allowed(body.allowed)
    video_of(request).catalogue.permit(name, allowed, by=user_of(request))
    return json_answer(stage_schemas.StageAccess(allowed=allowed.to_json()))


@OPERATIONS.delete(f"{VIDEO}/stages/{{name}}", "Remove a stage that no job uses (administrators)", more_errors=(409,))
def remove_stage(request: Request, name: str) -> None:
    require_admin(request)
    video_of(request).catalogue.remove(name)


@OPERATIONS.post(
    f"{VIDEO}/what-if",
    "Estimate the delay of each way to split a DAG between edge and cloud",
    stage_schemas.WhatIfAnswer,
    more_errors=(404,),
)
def what_if(request: Request, body: stage_schemas.WhatIf) -> Response:
    question = body.model_dump(exclude_none=True)
    if "video_id" in question:
        question["video_id"] = str(question["video_id"])
    predictions = video_of(request).planning.what_if(user_of(request), question, now=now())
    return json_answer(responses.predictions(predictions))


@OPERATIONS.get(f"{VIDEO}/profile", "List the measurements of stages", stage_schemas.MeasurementsAnswer)
def list_measurements(request: Request, params: stage_schemas.MeasurementQuery) -> Response:
    rows = measurements_of(request, node=params.node, stage=params.stage)
    return json_answer(stage_schemas.MeasurementsAnswer(measurements=list(rows)))
