"""The JSON API of stored results: what jobs have made that a reset has ended. OPERATIONS is its table of routes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.conversion import schemas
from app.conversion.access import conversion_of
from app.conversion.api import FILES, JOB_ID, media_type_of
from app.conversion.service.results import StoredJob
from app.kit.clock import to_text
from app.kit.web.auth import user_of
from app.kit.web.http import answer_of, json_answer, stream_bytes
from app.kit.web.operations import Operations

OPERATIONS = Operations(JOB_ID)


@OPERATIONS.add(
    "GET",
    "/results",
    "List jobs that a reset has ended and whose files are still stored, newest first",
    {200: schemas.ResultsAnswer},
    query=schemas.ResultsQuery,
)
def list_results(request: Request, params: schemas.ResultsQuery) -> Response:
    jobs, cursor = conversion_of(request).results.page(user_of(request), limit=params.limit, after=params.cursor)
    return json_answer(schemas.ResultsAnswer(results=[_build_answer(job) for job in jobs], next_cursor=cursor))


@OPERATIONS.add(
    "GET", "/results/{job_id}", "List the stored files of a job, also after a reset", {200: schemas.ResultAnswer}
)
def get_result(request: Request) -> Response:
    return json_answer(
        _build_answer(conversion_of(request).results.get(request.path_params["job_id"], user_of(request)))
    )


@OPERATIONS.add(
    "GET",
    "/results/{job_id}/{name}",
    "Download a stored file; Range is honored",
    {200: FILES, 206: FILES, 304: None},
    more_errors=(416,),
)
def get_result_file(request: Request) -> Response:
    results, name = conversion_of(request).results, request.path_params["name"]
    file = results.file(request.path_params["job_id"], name, user_of(request))
    return stream_bytes(
        request,
        lambda start, end: results.read(file, start, end),
        size=file.size_bytes,
        etag=file.etag,
        name=name,
        media_type=media_type_of(name),
    )


def _build_answer(job: StoredJob) -> schemas.ResultAnswer:
    options = job.options.model_dump(mode="json")
    return answer_of(schemas.ResultAnswer, job, options=options, created_at=to_text(job.created_at))
