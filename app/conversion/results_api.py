"""The JSON API of stored results: what jobs have made that a reset has ended; and of the key with which receipts are
checked, which are artifacts of their jobs. OPERATIONS is its table of routes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.conversion import schemas
from app.conversion.access import conversion_of
from app.conversion.api import FILES, JOB_ID, media_type_of
from app.conversion.errors import NoReceipts
from app.conversion.service.results import StoredJob
from app.kit.clock import to_text
from app.kit.web.auth import user_of
from app.kit.web.downloads import stream_bytes
from app.kit.web.http import answer_of, json_answer
from app.kit.web.operations import Operations

PEM = "application/x-pem-file"
OPERATIONS = Operations(JOB_ID)


@OPERATIONS.get(
    "/results", "List jobs that a reset has ended and whose files are still stored, newest first", schemas.ResultsAnswer
)
def list_results(request: Request, params: schemas.ResultsQuery) -> Response:
    jobs, cursor = conversion_of(request).results.page(user_of(request), limit=params.limit, after=params.cursor)
    return json_answer(schemas.ResultsAnswer(results=[_build_answer(job) for job in jobs], next_cursor=cursor))


@OPERATIONS.get("/results/{job_id}", "List the stored files of a job, also after a reset", schemas.ResultAnswer)
def get_result(request: Request, job_id: str) -> Response:
    return json_answer(_build_answer(conversion_of(request).results.get(job_id, user_of(request))))


@OPERATIONS.get(
    "/results/{job_id}/{name}",
    "Download a stored file; Range is honored",
    {200: FILES, 206: FILES, 304: None},
    more_errors=(416,),
)
def get_result_file(request: Request, job_id: str, name: str) -> Response:
    results = conversion_of(request).results
    file = results.file(job_id, name, user_of(request))
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


@OPERATIONS.get(
    "/receipts/key",
    "Get the Ed25519 public key that verifies receipts, as PEM",
    (PEM,),
    errors=(404,),
    headers={"X-Key-Id": "what receipts name this key by"},
    callers=(),
)
def get_receipt_key(request: Request) -> Response:
    """Tells nothing of anybody, so it is open to all: whoever was handed a model can check its receipt."""
    key = conversion_of(request).receipts.public_key
    if key is None:
        raise NoReceipts(
            "This installation signs no receipts.",
            hint="The operator sets MODELMILL_SECRET_KEY, to the same for the web and the scheduler.",
        )
    return Response(key.pem, media_type=PEM, headers={"X-Key-Id": key.key_id})
