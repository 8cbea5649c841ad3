"""The endpoints of /api/v2/video/jobs."""

from __future__ import annotations

from dataclasses import replace

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.clock import now
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import user_of
from app.kit.web.http import json_answer
from app.kit.web.mjpeg import MIXED
from app.kit.web.operations import OpenApiSchema, Operations
from app.kit.web.request_body import read_whole_body
from app.kit.web.sse import CONTENT_TYPE as STREAM
from app.kit.web.sse import event_stream, hub_of
from app.nodes.wire import read
from app.results.endpoints import operations
from app.results.model.producer import Producer
from app.video import responses, schemas
from app.video.access import uid_of, video_of
from app.video.job_events import job_frames, list_frames
from app.video.live import live_answer
from app.video.model.dag_inputs import chain_stages
from app.video.model.job import Mode, VideoJob
from app.video.model.kinds import StageKind
from app.video.responses import JOBS, VIDEO
from app.video.service import Catalogue, Submission
from app.video.service.producers import producer_of_job
from app.video.service.resources import naming_only

MAX_JSON_BYTES = 1 << 20
_ONE = f"{JOBS}/{{job_uid}}"
PICTURE_HEADERS = {"Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; sandbox"}
_UID: dict[str, OpenApiSchema] = {"job_uid": {"type": "string", "pattern": schemas.UID}}
OPERATIONS = Operations(_UID)


# --- jobs -------------------------------------------------------------------------------------------
@OPERATIONS.post(
    JOBS, "Run a DAG of stages on a video of a node", {201: schemas.JobAnswer}, more_errors=(404, 409, 429)
)
def submit_video_job(request: Request, body: schemas.NewJob) -> Response:
    submission = Submission(
        body.node,
        str(body.video_id),
        body.dag,
        body.constraint,
        body.policy,
        body.restart_policy,
        body.realtime,
        name=body.name,
    )
    return _answer_submitted(
        request, submission, body.stages, gate=body.gate, recording=body.recording, broadcast=body.broadcast
    )


@OPERATIONS.post(
    f"{VIDEO}/profile",
    "Measure stages on a node, by a job that ends by itself",
    {201: schemas.JobAnswer},
    more_errors=(404, 409, 429),
)
def profile_video(request: Request, body: schemas.NewProfile) -> Response:
    submission = Submission(body.node, str(body.video_id), body.dag, realtime=False, mode=Mode.PROFILE)
    return _answer_submitted(request, submission, body.stages)


@OPERATIONS.get(JOBS, "List my video jobs, newest first", schemas.JobsAnswer)
def list_video_jobs(request: Request, params: schemas.JobQuery) -> Response:
    jobs, cursor = video_of(request).jobs.page(
        user_of(request), state=params.state, text=params.q, cursor=params.cursor, limit=params.limit
    )
    return json_answer(schemas.JobsAnswer(jobs=[responses.summary(job) for job in jobs], next_cursor=cursor))


@OPERATIONS.get(
    _ONE,
    "Get a video job: its DAG, its plan and its performance",
    schemas.JobAnswer,
    version_fields=("state", "name", "policy", "constraint", "restart_policy", "created_at"),
)
def get_video_job(request: Request) -> Response:
    return json_answer(responses.describe_job(_load_job(request)))


@OPERATIONS.patch(_ONE, "Rename a video job", schemas.JobAnswer)
def change_video_job(request: Request, body: schemas.JobEdit) -> Response:
    if body.name is None:
        return json_answer(responses.describe_job(_load_job(request)))
    return json_answer(
        responses.describe_job(video_of(request).jobs.rename(user_of(request), uid_of(request), body.name))
    )


@OPERATIONS.post(f"{_ONE}/cancel", "Cancel a video job; one that has ended does not change", schemas.JobAnswer)
def cancel_video_job(request: Request) -> Response:
    return json_answer(
        responses.describe_job(video_of(request).jobs.cancel(user_of(request), uid_of(request), now=now()))
    )


@OPERATIONS.delete(_ONE, "Delete a video job that has ended", more_errors=(409,))
def delete_video_job(request: Request) -> Response:
    video_of(request).jobs.delete(user_of(request), uid_of(request))
    return Response(status_code=204)


@OPERATIONS.put(
    f"{_ONE}/constraint",
    "Set the constraint of a job: the time per frame and the quality",
    schemas.JobAnswer,
    more_errors=(409,),
    body={"required": True, "content": {"application/json": {"schema": schemas.NewConstraint}}},
)
async def constrain_video_job(request: Request) -> Response:
    constraint, jobs = await _read_object(request), video_of(request).jobs
    job = await run_in_threadpool(jobs.constrain, user_of(request), uid_of(request), constraint, now=now())
    return json_answer(responses.describe_job(job))


@OPERATIONS.put(f"{_ONE}/policy", "Change the scheduling policy of a job", schemas.JobAnswer, more_errors=(409,))
def choose_policy(request: Request, body: schemas.Choice) -> Response:
    job = video_of(request).jobs.choose(user_of(request), uid_of(request), body.policy, now=now())
    return json_answer(responses.describe_job(job))


@OPERATIONS.put(f"{_ONE}/plan", "Set the plan of a job", schemas.JobAnswer, more_errors=(409,))
def give_plan(request: Request, body: schemas.NewPlan) -> Response:
    user, planning = user_of(request), video_of(request).planning
    planning.give(user, uid_of(request), body.video_conf, body.flow_mapping, now=now())
    return json_answer(responses.describe_job(_load_job(request)))


# --- one job ---------------------------------------------------------------------------
@OPERATIONS.get(
    f"{_ONE}/results", "Get the newest results of a job, its plan and its performance", schemas.ResultsAnswer
)
def video_results(request: Request) -> Response:
    return json_answer(responses.results(_load_job(request)))


@OPERATIONS.get(f"{_ONE}/events", "List the events of a job", schemas.EventsAnswer)
def video_job_events(request: Request) -> Response:
    return json_answer(responses.events(video_of(request).jobs.events(user_of(request), uid_of(request))))


@OPERATIONS.get(f"{_ONE}/decisions", "List the decisions of the scheduler, newest first", schemas.DecisionsAnswer)
def video_decisions(request: Request, params: schemas.DecisionQuery) -> Response:
    jobs = video_of(request).jobs
    return json_answer(responses.decisions(jobs.decisions(user_of(request), uid_of(request), limit=params.limit)))


@OPERATIONS.get(f"{_ONE}/series", "Get the performance of the plans over time", schemas.SeriesAnswer)
def video_series(request: Request) -> Response:
    return json_answer(responses.series(video_of(request).reports.series(_load_job(request).uid)))


@OPERATIONS.get(f"{_ONE}/resources", "Get the nodes and services that its policy is given", schemas.ResourcesAnswer)
def video_resources(request: Request) -> Response:
    video, job = video_of(request), _load_job(request)
    stages = video.catalogue.names_seen_by(user_of(request)) | set(job.dag.stages)
    resources = naming_only(video.resources.info(job, now()), stages)
    return json_answer(schemas.ResourcesAnswer(resources=dict(resources)))


@OPERATIONS.get(f"{_ONE}/picture", "Get the newest snapshot", ("image/jpeg",))
def video_picture(request: Request) -> Response:
    picture = video_of(request).pictures.snapshot(user_of(request), uid_of(request))
    return Response(picture, media_type="image/jpeg", headers=PICTURE_HEADERS)


@OPERATIONS.get(f"{_ONE}/live", "Get the live picture, for an <img>", (MIXED,))
async def video_live(request: Request) -> Response:
    return await live_answer(request, video_of(request), user_of(request), uid_of(request))


@OPERATIONS.get(f"{_ONE}/changes", "Follow a job by server-sent events: the job at every change", (STREAM,))
async def video_job_changes(request: Request) -> Response:
    """The state at once, then at every change; ends with `done`, or with `gone` when the job was deleted."""
    job = await run_in_threadpool(_load_job, request)
    return event_stream(request, job_frames(hub_of(request), video_of(request), user_of(request), job.uid))


@OPERATIONS.get(f"{VIDEO}/changes", "Follow my newest jobs by server-sent events: the jobs at every change", (STREAM,))
async def video_changes(request: Request) -> Response:
    return event_stream(request, list_frames(hub_of(request), video_of(request), user_of(request)))


# --- helpers --------------------------------------------------------------------------------------
def _answer_submitted(
    request: Request, submission: Submission, stages: list[str] | None, **parts: JsonObject | None
) -> Response:
    submission = replace(submission, dag=with_dag(request, submission, stages, **parts))
    job = video_of(request).jobs.submit(user_of(request), submission, now=now())
    return json_answer(responses.describe_job(job), 201, {"Location": responses.place_of(job.uid)})


def with_dag(request: Request, submission: Submission, stages: list[str] | None, **parts: JsonObject | None) -> object:
    """The DAG of a submission, or that of stages.

    Args:
        stages: names of the catalog; None: the submission has a DAG.
        parts: gate, recording and broadcast, which are put into the DAG; None: it stays as it is.

    Raises:
        BadRequest: Both are given, or neither.
    """
    if (submission.dag is None) == (stages is None):
        raise BadRequest("Either dag or stages is to be given.", hint="stages: names of the catalog, in their order.")
    dag = submission.dag
    if stages is not None:
        dag = dag_of_stages(video_of(request).catalogue, user_of(request), stages)
    given = {name: part for name, part in parts.items() if part is not None}
    return {**dag, **given} if isinstance(dag, dict) else dag


def dag_of_stages(catalogue: Catalogue, user: str, stages: list[str]) -> JsonObject:
    kinds = catalogue.kinds_of_stages(user)
    return chain_stages([(name, _require_kind(name, kinds)) for name in stages])


def _require_kind(name: str, kinds: dict[str, StageKind]) -> StageKind:
    if name not in kinds:
        raise BadRequest(f"There is no stage {name!r}.", hint=f"There are: {', '.join(sorted(kinds)) or 'none'}.")
    return kinds[name]


def producer_in(request: Request) -> Producer:
    """Returns the job in the path, as those who keep results see it."""
    return producer_of_job(_load_job(request))


def _load_job(request: Request) -> VideoJob:
    return video_of(request).jobs.get(user_of(request), uid_of(request))


async def _read_object(request: Request) -> JsonObject:
    return read(await read_whole_body(request, MAX_JSON_BYTES, "A JSON body"))


OPERATIONS += operations("video", _ONE, _UID, producer_in)
