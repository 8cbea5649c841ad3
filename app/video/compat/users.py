"""/user/…: nodes and their videos, jobs, constraints, results, the live picture."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from pydantic import Field, StrictBool, StrictStr
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.kit.clock import now
from app.kit.text.json_values import JsonObject
from app.video.access import require_user, uid_of, video_of
from app.video.compat.error_format import Lenient, done, read_body
from app.video.live import live_answer
from app.video.model.job import RESULTS_KEPT, JobState, RestartPolicy, VideoJob
from app.video.responses import describe_result
from app.video.schemas import ConstraintJson, DagJson, VideoId
from app.video.service import Jobs, NodeVideos, Submission

PAGE = 100
Address = Annotated[StrictStr, Field(min_length=1, max_length=255)]


class RequirementJob(Lenient):
    """The requirement's keys, and what else can be said of a job."""

    node_addr: Address
    video_id: VideoId
    dag: DagJson
    user_constraint: ConstraintJson | None = None
    policy: StrictStr = ""
    restart_policy: RestartPolicy | None = None
    realtime: StrictBool = True
    unique_job_id: Annotated[StrictStr, Field(max_length=64)] = ""
    """For /node/submit_job alone."""


class RequirementConstraint(Lenient):
    job_uid: StrictStr
    user_constraint: ConstraintJson


async def get_all_status(request: Request) -> Response:
    user, video = require_user(request), video_of(request)
    offers = await run_in_threadpool(video.resources.videos, user, now())
    jobs = await run_in_threadpool(_collect_jobs_by_node, video.jobs, user)
    shared = Counter(offer.address for offer in offers)
    return done(
        data={
            offer.node if shared[offer.address] > 1 or not offer.address else offer.address: _status_of(
                offer, jobs.get(offer.node, [])
            )
            for offer in offers
        }
    )


async def submit_job(request: Request) -> Response:
    body, _ = await read_body(request, RequirementJob)
    job = await run_in_threadpool(video_of(request).jobs.submit, require_user(request), submission(body), now=now())
    return done(
        msg="submitted to manager", job_uid=job.uid, node_addr=body.node_addr, constraint=job.constraint.to_json()
    )


def submission(body: RequirementJob, uid: str = "") -> Submission:
    return Submission(
        body.node_addr,
        str(body.video_id),
        body.dag,
        body.user_constraint,
        body.policy,
        body.restart_policy,
        body.realtime,
        uid=uid,
    )


async def submit_job_user_constraint(request: Request) -> Response:
    body, _ = await read_body(request, RequirementConstraint)
    user, jobs = require_user(request), video_of(request).jobs
    job = await run_in_threadpool(jobs.constrain, user, body.job_uid, body.user_constraint, now=now())
    return done(msg="constraint is in force with the next plan", job_uid=job.uid, constraint=job.constraint.to_json())


async def sync_job_result(request: Request) -> Response:
    job = await run_in_threadpool(video_of(request).jobs.get, require_user(request), uid_of(request))
    shown = {
        "status": 0,
        "result": result_of(job),
        "state": job.state.value,
        "flags": list(job.flags),
        "no_signal_since": job.no_signal_since,
    }
    return JSONResponse(shown, headers={"Cache-Control": "no-store"})


async def video(request: Request) -> Response:
    return await live_answer(request, video_of(request), require_user(request), uid_of(request))


def result_of(job: VideoJob) -> JsonObject:
    """appended_result: at most ten, newest last; plan: None until there is one."""
    latest = {
        "plan": job.plan.to_json() if job.plan else None,
        "plan_result": describe_result(job),
    }
    return {"appended_result": [dict(result) for result in job.results[-RESULTS_KEPT:]], "latest_result": latest}


def _collect_jobs_by_node(jobs: Jobs, user: str) -> dict[str, list[str]]:
    """node → uids of the user's jobs on it that are not DONE, newest first."""
    uids: dict[str, list[str]] = {}
    for state in (JobState.UNSCHED, JobState.EXEC):
        cursor: str | None = None
        while True:
            page, cursor = jobs.page(user, state=state, cursor=cursor, limit=PAGE)
            for job in page:
                uids.setdefault(job.node, []).append(job.uid)
            if not cursor:
                break
    return uids


def _status_of(offer: NodeVideos, jobs: list[str]) -> JsonObject:
    return {
        "video": {str(key): dict(what) for key, what in offer.videos.items()},
        "node": offer.node,
        "online": offer.is_online,
        "last_seen": offer.last_seen_at,
        "job_uid_list": jobs,
    }
