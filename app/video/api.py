"""The endpoints of video under /api/v2: OPERATIONS is their table of routes."""

from __future__ import annotations

from typing import Any

from app.kit.web.mjpeg import MIXED
from app.kit.web.openapi import Operation
from app.kit.web.sse import CONTENT_TYPE as STREAM
from app.video import endpoints, schemas
from app.video.responses import JOBS, VIDEO
from app.video.rule_endpoints import OPERATIONS as RULES
from app.video.sink_endpoints import OPERATIONS as SINKS

_ONE = f"{JOBS}/{{job_uid}}"
_STAGE: dict[str, dict[str, Any]] = {"name": {"type": "string", "pattern": schemas.NAME}}
_UID: dict[str, dict[str, Any]] = {"job_uid": {"type": "string", "pattern": schemas.UID}}
_OBJECT: dict[str, Any] = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
_SENT = (400, 413, 422, 503)


def _of_job(rest: str, endpoint: Any, summary: str, answer: Any, **more: Any) -> Operation:
    """What is known of a job."""
    errors = more.pop("errors", (404, 503))
    return Operation("GET", f"{_ONE}{rest}", endpoint, summary, {200: answer}, errors=errors, parameters=_UID, **more)


OPERATIONS: list[Operation] = [
    Operation(
        "GET",
        f"{VIDEO}/nodes",
        endpoints.list_videos,
        "Nodes that have videos",
        {200: schemas.NodesAnswer},
        errors=(503,),
    ),
    Operation(
        "GET",
        f"{VIDEO}/kinds",
        endpoints.list_kinds,
        "Kinds of stages: what goes in, what comes out",
        {200: schemas.KindsAnswer},
        errors=(503,),
    ),
    Operation(
        "GET",
        f"{VIDEO}/policies",
        endpoints.list_policies,
        "Scheduling policies",
        {200: schemas.PoliciesAnswer},
        errors=(503,),
    ),
    Operation(
        "GET",
        f"{VIDEO}/stages",
        endpoints.list_stages,
        "Stages that a DAG may name",
        {200: schemas.StagesAnswer},
        errors=(503,),
    ),
    Operation(
        "PUT",
        f"{VIDEO}/stages/{{name}}",
        endpoints.put_stage,
        "Add or replace a stage (administrators)",
        {200: schemas.StageAnswer},
        errors=_SENT,
        body=schemas.NewStage,
        parameters=_STAGE,
    ),
    Operation(
        "GET",
        f"{VIDEO}/stages/{{name}}/access",
        endpoints.get_stage_access,
        "Who may use a stage (administrators)",
        {200: schemas.StageAccess},
        errors=(403, 404, 503),
        parameters=_STAGE,
    ),
    Operation(
        "PUT",
        f"{VIDEO}/stages/{{name}}/access",
        endpoints.put_stage_access,
        "Say who may use a stage (administrators)",
        {200: schemas.StageAccess},
        errors=(403, 404, *_SENT),
        body=schemas.StageAccess,
        parameters=_STAGE,
    ),
    Operation(
        "DELETE",
        f"{VIDEO}/stages/{{name}}",
        endpoints.remove_stage,
        "Remove a stage that no job names (administrators)",
        {204: None},
        errors=(404, 409, 503),
        parameters=_STAGE,
    ),
    Operation(
        "GET",
        JOBS,
        endpoints.list_video_jobs,
        "My video jobs, newest first",
        {200: schemas.JobsAnswer},
        errors=(422, 503),
        query=schemas.JobQuery,
    ),
    Operation(
        "POST",
        JOBS,
        endpoints.submit_video_job,
        "Run a DAG of stages on a node's video",
        {201: schemas.JobAnswer},
        errors=(404, 409, 429, *_SENT),
        body=schemas.NewJob,
    ),
    Operation(
        "GET",
        f"{VIDEO}/changes",
        endpoints.video_changes,
        "My newest jobs, again at every change (server-sent events)",
        {200: (STREAM,)},
        errors=(503,),
    ),
    _of_job("", endpoints.get_video_job, "A job: its DAG, its plan, how it does", schemas.JobAnswer),
    Operation(
        "PATCH",
        _ONE,
        endpoints.change_video_job,
        "Change its name",
        {200: schemas.JobAnswer},
        errors=(404, *_SENT),
        body=schemas.JobEdit,
        parameters=_UID,
    ),
    Operation(
        "DELETE",
        _ONE,
        endpoints.delete_video_job,
        "Forget a job that has ended",
        {204: None},
        errors=(404, 409, 503),
        parameters=_UID,
    ),
    Operation(
        "POST",
        f"{_ONE}/cancel",
        endpoints.cancel_video_job,
        "End a job; one that has ended stays as it is",
        {200: schemas.JobAnswer},
        errors=(404, 503),
        parameters=_UID,
    ),
    Operation(
        "PUT",
        f"{_ONE}/constraint",
        endpoints.constrain_video_job,
        "How long a frame may take, and how good it must be",
        {200: schemas.JobAnswer},
        errors=(404, 409, *_SENT),
        body=_OBJECT,
        parameters=_UID,
    ),
    Operation(
        "PUT",
        f"{_ONE}/policy",
        endpoints.choose_policy,
        "Another scheduling policy from now on",
        {200: schemas.JobAnswer},
        errors=(404, 409, *_SENT),
        body=schemas.Choice,
        parameters=_UID,
    ),
    Operation(
        "PUT",
        f"{_ONE}/plan",
        endpoints.give_plan,
        "Another plan now, by hand",
        {200: schemas.JobAnswer},
        errors=(404, 409, *_SENT),
        body=schemas.NewPlan,
        parameters=_UID,
    ),
    _of_job(
        "/results", endpoints.video_results, "Its newest results, its plan and how that does", schemas.ResultsAnswer
    ),
    _of_job(
        "/rows",
        endpoints.video_rows,
        "The rows of all frames that are kept: by time, class and score",
        schemas.RowsAnswer,
        errors=(404, 422, 503),
        query=schemas.RowPageQuery,
    ),
    _of_job(
        "/rows.csv",
        endpoints.video_rows_csv,
        "The same as a table, a line an object",
        ("text/csv",),
        errors=(404, 422, 503),
        query=schemas.RowQuery,
    ),
    _of_job(
        "/rows.jsonl",
        endpoints.video_rows_jsonl,
        "The same as JSON, a line a frame",
        ("application/jsonl",),
        errors=(404, 422, 503),
        query=schemas.RowQuery,
    ),
    _of_job("/events", endpoints.video_job_events, "What happened to it", schemas.EventsAnswer),
    _of_job(
        "/decisions",
        endpoints.video_decisions,
        "What the scheduler decided, newest first",
        schemas.DecisionsAnswer,
        errors=(404, 422, 503),
        query=schemas.DecisionQuery,
    ),
    _of_job("/series", endpoints.video_series, "How its plans did over time", schemas.SeriesAnswer),
    _of_job(
        "/resources", endpoints.video_resources, "Nodes and services as its policy sees them", schemas.ResourcesAnswer
    ),
    _of_job("/picture", endpoints.video_picture, "Its newest snapshot", ("image/jpeg",)),
    _of_job("/live", endpoints.video_live, "Its live picture, for an <img>", (MIXED,), errors=(404, 503)),
    _of_job("/changes", endpoints.video_job_changes, "The job, again at every change (server-sent events)", (STREAM,)),
    Operation(
        "POST",
        f"{VIDEO}/what-if",
        endpoints.what_if,
        "What each way to cut a DAG would take",
        {200: schemas.WhatIfAnswer},
        errors=(404, *_SENT),
        body=schemas.WhatIf,
    ),
    Operation(
        "POST",
        f"{VIDEO}/profile",
        endpoints.profile_video,
        "Measure stages on a node: a job that ends by itself",
        {201: schemas.JobAnswer},
        errors=(404, 409, 429, *_SENT),
        body=schemas.NewProfile,
    ),
    Operation(
        "GET",
        f"{VIDEO}/profile",
        endpoints.list_measurements,
        "What was measured",
        {200: schemas.MeasurementsAnswer},
        errors=(422, 503),
        query=schemas.MeasurementQuery,
    ),
    *RULES,
    *SINKS,
]
