"""The endpoints of /api/v2/video/job-sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from starlette.requests import Request
from starlette.responses import Response

from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.http import answer_of, json_answer
from app.kit.web.operations import OpenApiSchema, Operations
from app.video import responses, schemas
from app.video.access import video_of
from app.video.job_endpoints import with_dag
from app.video.model.job import JobState, VideoJob
from app.video.model.job_set import JobSet
from app.video.responses import VIDEO
from app.video.service import Submission

SETS = f"{VIDEO}/job-sets"
_ID: dict[str, OpenApiSchema] = {"set_id": {"type": "string", "pattern": "^[0-9a-f-]{36}$"}}
OPERATIONS = Operations(_ID)


@OPERATIONS.post(
    SETS,
    "Run a DAG of stages on every video of the nodes with these labels, including nodes added later",
    {201: schemas.JobSetAnswer},
    more_errors=(404, 409),
)
def create_job_set(request: Request, body: schemas.NewJobSet) -> Response:
    submission = Submission(
        "",
        str(body.video_id) if body.video_id is not None else "",
        body.dag,
        body.constraint,
        body.policy,
        body.restart_policy,
        body.realtime,
        name=body.name,
    )
    dag = with_dag(request, submission, body.stages, gate=body.gate, recording=body.recording, broadcast=body.broadcast)
    submission = replace(submission, dag=dag)
    made = video_of(request).sets.create(user_of(request), body.node_selector, submission, now=now())
    return json_answer(answer_of_set(made, ()), 201, {"Location": f"{SETS}/{made.set_id}"})


@OPERATIONS.get(SETS, "List my job sets, newest first", schemas.JobSetsAnswer)
def list_job_sets(request: Request) -> Response:
    sets = video_of(request).sets.all(user_of(request))
    return json_answer(schemas.JobSetsAnswer(job_sets=[answer_of_set(one, jobs) for one, jobs in sets]))


@OPERATIONS.get(
    f"{SETS}/{{set_id}}",
    "Get a job set and its jobs",
    schemas.JobSetAnswer,
    version_fields=("name", "node_selector", "video_id", "created_at"),
)
def get_job_set(request: Request, set_id: str) -> Response:
    one, jobs = video_of(request).sets.get(user_of(request), set_id)
    return json_answer(answer_of_set(one, jobs))


@OPERATIONS.delete(f"{SETS}/{{set_id}}", "Delete a job set, and cancel its jobs")
def delete_job_set(request: Request, set_id: str) -> None:
    video_of(request).sets.delete(user_of(request), set_id, now=now())


def answer_of_set(one: JobSet, jobs: Sequence[VideoJob]) -> schemas.JobSetAnswer:
    place = f"{SETS}/{one.set_id}"
    return answer_of(
        schemas.JobSetAnswer,
        one,
        node_selector=dict(one.selector),
        running=sum(job.state is JobState.EXEC and not job.flags for job in jobs),
        under_way=sum(job.state is not JobState.DONE for job in jobs),
        jobs=[responses.summary(job) for job in jobs],
        links={"job_set": place, "page": f"/ui/video/sets/{one.set_id}"},
    )
