"""The JSON API by which users change jobs that exist. OPERATIONS is its table of routes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.conversion import schemas
from app.conversion.access import conversion_of
from app.conversion.api import JOB_ID, job_response
from app.kit.web.auth import user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations

OPERATIONS = Operations(JOB_ID)


@OPERATIONS.patch("/jobs/{job_id}", "Change the name, tags or notes of a job, or keep its files", schemas.JobAnswer)
def change_job(request: Request, job_id: str, body: schemas.JobChange) -> Response:
    conversion, user = conversion_of(request), user_of(request)
    conversion.jobs.get(job_id, user)  # one that only the archive has is changed there
    return job_response(conversion, conversion.edits.change(job_id, user, **body.model_dump(exclude_none=True)))


@OPERATIONS.post(
    "/jobs/bulk",
    "Cancel, delete, tag or keep many jobs, also of the archive; a failure for one does not affect the others",
    schemas.BulkAnswer,
)
def change_jobs(request: Request, body: schemas.BulkChange) -> Response:
    edits, user = conversion_of(request).edits, user_of(request)
    result = edits.each(body.verb, body.job_ids, user, add=body.add_tags, remove=body.remove_tags)
    problems = [{"job_id": job_id, **error.to_dict()} for job_id, error in result.problems.items()]
    return json_answer(schemas.BulkAnswer.model_validate({"done": list(result.done), "problems": problems}))
