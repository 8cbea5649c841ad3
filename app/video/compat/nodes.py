"""/node/…: what nodes ask and report of the jobs they run. Users may send the same of their own jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, cast

from pydantic import Field, StrictInt, StrictStr
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.inference.broadcast import BroadcastState
from app.kit.clock import now
from app.kit.errors import BadRequest
from app.kit.network.addresses import host_and_port
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import Caller, caller_of
from app.kit.web.described_type import DescribedType
from app.kit.web.request_body import read_whole_body
from app.results.model.frame_result import Row
from app.video.access import require_node, require_user, uid_of, video_of
from app.video.compat.error_format import Lenient, done, read_body
from app.video.compat.users import RequirementJob, submission
from app.video.errors import VideoNotFound
from app.video.model.dag_inputs import with_render
from app.video.model.job import VideoJob
from app.video.model.report import JobReport, Measurement, PlanRequest
from app.video.scheduling.contract import GeneratorInfo
from app.video.schemas import ConstraintJson, DagJson, FlowMappingJson, PlanResultJson, VideoConfJson
from app.video.service import NodeVideos, Resources, Video
from app.video.service.pictures import MAX_PICTURE_BYTES

HINT = "A node runs `modelmill node --video PATH`, which dials the web and says what it has."
JPEG = b"\xff\xd8\xff"
Uid = Annotated[StrictStr, Field(min_length=1, max_length=64)]
Seq = Annotated[StrictInt, Field(ge=0, le=2**31 - 1)]


class PlanDemand(Lenient):
    """The requirement's four, and what a runner knows beside."""

    job_uid: Uid
    dag: DagJson | None = None
    last_plan_result: PlanResultJson | None = None
    user_constraint: ConstraintJson | None = None
    generator_output: Annotated[JsonObject, DescribedType(GeneratorInfo)] | None = None
    asked: Seq = 0
    why: Annotated[StrictStr, Field(max_length=32)] = "period"


class RequirementPlan(Lenient):
    job_uid: Uid
    video_conf: VideoConfJson
    flow_mapping: FlowMappingJson


class JoinRequest(Lenient):
    node_port: Annotated[StrictInt, Field(ge=1, le=65535)]
    video_id: StrictInt | StrictStr | None = None
    video_type: StrictStr = ""


class ResultsReport(Lenient):
    job_uid: Uid
    seq: Seq
    results: Annotated[list[Annotated[JsonObject, DescribedType(Row)]], Field(max_length=1000, default_factory=list)]
    plan_result: PlanResultJson | None = None
    flags: Annotated[list[StrictStr], Field(max_length=10)] | None = None
    silent_s: Annotated[float, Field(ge=0)] | None = None
    broadcast: Annotated[JsonObject, DescribedType(BroadcastState)] | None = None
    ending: StrictStr | None = None
    reason: StrictStr | None = None
    profile: Annotated[list[Annotated[JsonObject, DescribedType(Measurement)]], Field(max_length=1000)] | None = None
    progress: Annotated[float, Field(ge=0, le=1)] | None = None
    note: StrictStr | None = None


async def submit_job(request: Request) -> Response:
    body, _ = await read_body(request, RequirementJob)
    if not body.unique_job_id:
        raise BadRequest("unique_job_id: Field required", hint="Or submit it at /user/submit_job, which numbers it.")
    job = await run_in_threadpool(_submit, video_of(request), require_user(request), body)
    return done(msg="submitted to manager", job_uid=job.uid, unique_job_id=job.uid)


async def get_plan(request: Request) -> Response:
    body, _ = await read_body(request, PlanDemand)
    caller, planning = caller_of(request), video_of(request).planning
    plan_request = cast("PlanRequest", {"dag": {}, **body.model_dump(exclude_unset=True)})
    plan_request.setdefault("last_plan_result", None)
    plan_request.setdefault("user_constraint", None)
    await run_in_threadpool(planning.ask, plan_request, node=caller.node, user=caller.user)
    return done(msg="the scheduler has been asked; the plan comes by the node's orders", job_uid=body.job_uid)


async def update_plan(request: Request) -> Response:
    body, _ = await read_body(request, RequirementPlan)
    user, planning = require_user(request), video_of(request).planning
    await run_in_threadpool(planning.give, user, body.job_uid, body.video_conf, body.flow_mapping, now=now())
    return done(msg="the plan is on its way to the node", job_uid=body.job_uid)


async def update_status(request: Request) -> Response:
    """The origin's way to join, once a video: here a node is registered, and says by itself what it has."""
    body, _ = await read_body(request, JoinRequest)
    address = host_and_port(request.client.host if request.client else "", body.node_port)
    offer = await run_in_threadpool(_find, video_of(request).resources, caller_of(request), address)
    if offer is None:
        raise VideoNotFound(f"No node with videos is known at {address}.", hint=HINT)
    if body.video_id is not None and str(body.video_id) not in offer.videos:
        raise VideoNotFound(f"The node {offer.node!r} has no video {body.video_id}.", hint=HINT)
    return done(node_addr=offer.address)


async def sync_job_result(request: Request) -> Response:
    body, _ = await read_body(request, ResultsReport)
    caller, reports = caller_of(request), video_of(request).reports
    report = cast("JobReport", body.model_dump(exclude_none=True))
    await run_in_threadpool(reports.take, report, node=caller.node, user=caller.user, now=now())
    return done(job_uid=body.job_uid)


async def put_picture(request: Request) -> Response:
    picture = await read_whole_body(request, MAX_PICTURE_BYTES, "A picture")
    if not picture.startswith(JPEG):
        raise BadRequest("The body is no JPEG.", hint="The runner of a job sends its rendered picture as JPEG.")
    node, pictures = require_node(request), video_of(request).pictures
    await run_in_threadpool(pictures.put_snapshot, node, uid_of(request), picture, now=now())
    return done(job_uid=uid_of(request))


def _submit(video: Video, user: str, body: RequirementJob) -> VideoJob:
    """The requirement's body has no Render here: it was removed when the DAG was cut."""
    dag = with_render(body.dag, video.catalogue.kinds_of_stages(user))
    numbered = replace(submission(body, body.unique_job_id), dag=dag)
    return video.jobs.submit(user, numbered, now=now())


def _find(resources: Resources, caller: Caller, address: str) -> NodeVideos | None:
    if caller.node:
        return resources.of_node(caller.node, now())
    return resources.find(caller.user, address, now())
