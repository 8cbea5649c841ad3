"""The table of the requirement's endpoints: their routes, and what the OpenAPI document says of them."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import RootModel

from app.kit.text.json_values import JsonObject
from app.kit.web.idempotency import HEADER, SCHEMA, once
from app.kit.web.mjpeg import MIXED
from app.kit.web.openapi import REPLAYED
from app.kit.web.operations import Answer, OpenApiSchema, Operation
from app.video.compat import nodes, schemas, services, users
from app.video.compat.error_format import Endpoint, in_requirement_form
from app.video.model.reader import NAME
from app.video.schemas import UID

_UID: dict[str, OpenApiSchema] = {"job_uid": {"type": "string", "pattern": UID}}
_STAGE: dict[str, OpenApiSchema] = {"stage": {"type": "string", "pattern": f"^{NAME.pattern}$"}}
_PICTURE: OpenApiSchema = {"required": True, "content": {"image/jpeg": {"schema": {}}}}
_CALL: OpenApiSchema = {
    "required": True,
    "content": {kind: {"schema": {"type": "object"}} for kind in ("application/json", "multipart/form-data")},
}

PATHS = re.compile(r"/(user|node|service|execute_task|get_execute_url)/.+|/get_(service_list|\w+_info)")
"""Paths whose errors have the requirement's form, wherever they come from."""


class Outputs(RootModel[JsonObject]):
    """What the stage found, by field, with server_ms, queue_ms and the model that was used."""


class Names(RootModel[list[str]]):
    """Names of stages."""


class ByAddress(RootModel[dict[str, JsonObject]]):
    """By the address of the node; for nodes that share one, by name."""


def _make_operation(
    method: Literal["GET", "POST"],
    path: str,
    endpoint: Endpoint,
    name: str,
    summary: str,
    answer: Answer,
    *,
    more_errors: tuple[int, ...] = (),
    creates: bool = False,
    **more: Any,
) -> Operation:
    """What any of its kind may refuse with is not said; `more_errors` are besides."""
    errors = {401, 403, 429, 503, *((400, 404, 413) if method == "POST" else ()), *more_errors}
    if "{" in path:
        errors.add(404)
    if creates:
        endpoint = once(endpoint)
        errors.add(409)
        more |= {"sent_headers": {HEADER: SCHEMA}, "headers": REPLAYED}
    refusals = dict.fromkeys(sorted(errors), schemas.Refusal)
    return Operation(method, path, in_requirement_form(endpoint, name), summary, {200: answer, **refusals}, **more)


OPERATIONS: list[Operation] = [
    _make_operation(
        "GET",
        "/user/get_all_status",
        users.get_all_status,
        "requirement_status",
        "List the nodes and their videos",
        schemas.AllStatus,
    ),
    _make_operation(
        "POST",
        "/user/submit_job",
        users.submit_job,
        "requirement_submit",
        "Run a DAG of stages on a video of a node",
        schemas.JobTaken,
        creates=True,
        body=users.RequirementJob,
    ),
    _make_operation(
        "POST",
        "/user/submit_job_user_constraint",
        users.submit_job_user_constraint,
        "requirement_constrain",
        "Set the constraint of a job: the time per frame and the quality",
        schemas.ConstraintTaken,
        more_errors=(409,),
        body=users.RequirementConstraint,
    ),
    _make_operation(
        "GET",
        "/user/sync_job_result/{job_uid}",
        users.sync_job_result,
        "requirement_results",
        "Get the last ten results of a job, its plan and its performance",
        schemas.JobResult,
        parameters=_UID,
    ),
    _make_operation(
        "GET",
        "/user/video/{job_uid}",
        users.video,
        "requirement_video",
        "Get the live picture of a job, for an <img>",
        (MIXED,),
        parameters=_UID,
    ),
    _make_operation(
        "POST",
        "/node/submit_job",
        nodes.submit_job,
        "requirement_submit_numbered",
        "Run a DAG of stages, like /user/submit_job, with a job id of the caller's own",
        schemas.JobTaken,
        creates=True,
        body=users.RequirementJob,
    ),
    _make_operation(
        "POST",
        "/node/get_plan",
        nodes.get_plan,
        "requirement_ask_plan",
        "Request another plan for a job",
        schemas.OfJob,
        body=nodes.PlanDemand,
    ),
    _make_operation(
        "POST",
        "/node/update_plan",
        nodes.update_plan,
        "requirement_give_plan",
        "Set the plan of a job by hand",
        schemas.OfJob,
        more_errors=(409,),
        body=nodes.RequirementPlan,
    ),
    _make_operation(
        "POST",
        "/node/update_status",
        nodes.update_status,
        "requirement_join",
        "Check whether a node is registered",
        schemas.Joined,
        body=nodes.JoinRequest,
    ),
    _make_operation(
        "POST",
        "/node/sync_job_result",
        nodes.sync_job_result,
        "requirement_report",
        "Report results of a job (the node's token)",
        schemas.OfJob,
        body=nodes.ResultsReport,
    ),
    _make_operation(
        "POST",
        "/node/video/{job_uid}/picture",
        nodes.put_picture,
        "requirement_put_picture",
        "Report a picture of a job (the node's token)",
        schemas.OfJob,
        body=_PICTURE,
        parameters=_UID,
    ),
    *(
        _make_operation(
            "POST",
            f"{path}/{{stage}}",
            services.call,
            name,
            "Call a stage; ?node=NAME: on this node only",
            Outputs,
            more_errors=(409, 422, 500, 504),
            body=_CALL,
            query=services.CallQuery,
        )
        for path, name in (("/service", "requirement_call"), ("/execute_task", "requirement_execute"))
    ),
    _make_operation(
        "GET",
        "/get_service_list",
        services.get_service_list,
        "requirement_services",
        "List the stages that nodes serve",
        Names,
    ),
    _make_operation(
        "GET",
        "/get_execute_url/{stage}",
        services.get_execute_url,
        "requirement_urls",
        "List the addresses of a stage, by node",
        ByAddress,
        parameters=_STAGE,
    ),
    _make_operation(
        "GET",
        "/get_resource_info",
        services.get_resource_info,
        "requirement_resources",
        "List the stages and their free capacity, by node",
        ByAddress,
    ),
    _make_operation(
        "GET",
        "/get_cluster_info",
        services.get_cluster_info,
        "requirement_cluster",
        "List the nodes that serve stages",
        ByAddress,
    ),
]
