"""The endpoints of /api/v2/video about jobs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.clock import now
from app.kit.errors import BadRequest
from app.kit.web.auth import user_of
from app.kit.web.http import json_body, query
from app.kit.web.request_body import whole_body
from app.kit.web.sse import hub_of
from app.nodes.wire import read
from app.video import responses, schemas
from app.video.access import json_answer, uid_of, video_of
from app.video.live import live_answer
from app.video.model.dag_wiring import chained
from app.video.model.job import Mode, VideoJob
from app.video.model.kinds import StageKind
from app.video.service import Catalogue, Submission
from app.video.service.resources import naming_only
from app.video.streaming import job_frames, list_frames

MAX_JSON_BYTES = 1 << 20
SEND_TIMEOUT_S, SHUTDOWN_GRACE_S = 10, 2.0
STREAM = "text/event-stream"
PICTURE_HEADERS = {"Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'; sandbox"}


# --- jobs -------------------------------------------------------------------------------------------
async def submit_video_job(request: Request) -> Response:
    asked = await json_body(request, schemas.NewJob)
    wanted = Submission(
        asked.node, str(asked.video_id), asked.dag, asked.constraint, asked.policy, asked.restart_policy, asked.realtime
    )
    return await _submitted(request, wanted, asked.stages)


async def profile_video(request: Request) -> Response:
    asked = await json_body(request, schemas.NewProfile)
    wanted = Submission(asked.node, str(asked.video_id), asked.dag, realtime=False, mode=Mode.PROFILE)
    return await _submitted(request, wanted, asked.stages)


def list_video_jobs(request: Request) -> Response:
    asked = query(request, schemas.JobQuery)
    found, cursor = video_of(request).jobs.page(
        user_of(request), state=asked.state, text=asked.q, cursor=asked.cursor, limit=asked.limit
    )
    return json_answer(schemas.JobsAnswer(jobs=[responses.summary(job) for job in found], next_cursor=cursor))


def get_video_job(request: Request) -> Response:
    return json_answer(responses.whole(_job(request)))


def cancel_video_job(request: Request) -> Response:
    return json_answer(responses.whole(video_of(request).jobs.cancel(user_of(request), uid_of(request), now=now())))


def delete_video_job(request: Request) -> Response:
    video_of(request).jobs.delete(user_of(request), uid_of(request))
    return Response(status_code=204)


async def constrain_video_job(request: Request) -> Response:
    constraint, jobs = await _object(request), video_of(request).jobs
    job = await run_in_threadpool(jobs.constrain, user_of(request), uid_of(request), constraint, now=now())
    return json_answer(responses.whole(job))


async def choose_policy(request: Request) -> Response:
    asked, jobs = await json_body(request, schemas.Choice), video_of(request).jobs
    job = await run_in_threadpool(jobs.choose, user_of(request), uid_of(request), asked.policy, now=now())
    return json_answer(responses.whole(job))


async def give_plan(request: Request) -> Response:
    asked, planning = await json_body(request, schemas.NewPlan), video_of(request).planning
    await run_in_threadpool(
        planning.give, user_of(request), uid_of(request), asked.video_conf, asked.flow_mapping, now=now()
    )
    return json_answer(responses.whole(await run_in_threadpool(_job, request)))


# --- what is known of one ---------------------------------------------------------------------------
def video_results(request: Request) -> Response:
    return json_answer(responses.results(_job(request)))


def video_job_events(request: Request) -> Response:
    return json_answer(responses.events(video_of(request).jobs.events(user_of(request), uid_of(request))))


def video_decisions(request: Request) -> Response:
    asked, jobs = query(request, schemas.DecisionQuery), video_of(request).jobs
    return json_answer(responses.decisions(jobs.decisions(user_of(request), uid_of(request), limit=asked.limit)))


def video_series(request: Request) -> Response:
    return json_answer(responses.series(video_of(request).reports.series(_job(request).uid)))


def video_resources(request: Request) -> Response:
    video, job = video_of(request), _job(request)
    stages = video.catalogue.names_seen_by(user_of(request)) | set(job.dag.stages)
    resources = naming_only(video.resources.info(job, now()), stages)
    return json_answer(schemas.ResourcesAnswer(resources=dict(resources)))


def video_picture(request: Request) -> Response:
    picture = video_of(request).pictures.snapshot(user_of(request), uid_of(request))
    return Response(picture, media_type="image/jpeg", headers=PICTURE_HEADERS)


async def video_live(request: Request) -> Response:
    return await live_answer(request, video_of(request), user_of(request), uid_of(request))


async def video_job_changes(request: Request) -> Response:
    """The state at once, then at every change; ends with `done`, or with `gone` when the job was deleted."""
    job, hub = await run_in_threadpool(_job, request), hub_of(request)
    return _events(request, job_frames(hub, video_of(request), user_of(request), job.uid))


async def video_changes(request: Request) -> Response:
    return _events(request, list_frames(hub_of(request), video_of(request), user_of(request)))


async def _submitted(request: Request, wanted: Submission, stages: list[str] | None) -> Response:
    video, user = video_of(request), user_of(request)
    if (wanted.dag is None) == (stages is None):
        raise BadRequest("Either dag or stages is to be given.", hint="stages: names of the catalogue, in their order.")
    if stages is not None:
        wanted = replace(wanted, dag=await run_in_threadpool(_dag_of, video.catalogue, user, stages))
    job = await run_in_threadpool(video.jobs.submit, user, wanted, now=now())
    return json_answer(responses.whole(job), 201, {"Location": responses.place_of(job.uid)})


def _dag_of(catalogue: Catalogue, user: str, stages: list[str]) -> dict[str, Any]:
    of = catalogue.kinds_of_stages(user)
    return chained([(name, _known(name, of)) for name in stages])


def _known(name: str, of: dict[str, StageKind]) -> StageKind:
    if name not in of:
        raise BadRequest(f"There is no stage {name!r}.", hint=f"There are: {', '.join(sorted(of)) or 'none'}.")
    return of[name]


def _job(request: Request) -> VideoJob:
    return video_of(request).jobs.get(user_of(request), uid_of(request))


async def _object(request: Request) -> dict[str, Any]:
    """Raises BadFrame, TooLarge."""
    return read(await whole_body(request, MAX_JSON_BYTES, "A JSON body"))


def _events(request: Request, frames: Any) -> Response:
    if request.method == "HEAD":
        return Response(media_type=STREAM)
    return EventSourceResponse(
        frames,
        send_timeout=SEND_TIMEOUT_S,
        shutdown_event=hub_of(request),  # type: ignore[arg-type]
        shutdown_grace_period=SHUTDOWN_GRACE_S,
    )
