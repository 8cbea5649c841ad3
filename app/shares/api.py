"""The JSON API of links to jobs, and what a link leads to. OPERATIONS is its table of routes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.conversion.access import conversion_of
from app.conversion.api import FILES, JOB_ID, artifact_stream
from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations
from app.kit.web.public_address import find_reached_url
from app.shares import schemas
from app.shares.access import shares_of

SHARES = "/jobs/{job_id}/shares"
SHARED = "/shared"
OPERATIONS = Operations({**JOB_ID, "share_id": {"type": "string", "pattern": "^[0-9a-f]{32}$"}})


@OPERATIONS.add(
    "POST",
    SHARES,
    "Create a link with which others see the job and download its files without an account",
    {201: schemas.NewShareAnswer},
    more_errors=(429,),
    body=schemas.NewShare,
)
def share_job(request: Request, body: schemas.NewShare) -> Response:
    job_id, user = request.path_params["job_id"], user_of(request)
    share, key = shares_of(request).add(job_id, user, days=body.days, label=body.label, now=now())
    return json_answer(schemas.new_share_answer(share, build_shared_url(request, share.share_id, key)), 201)


@OPERATIONS.add("GET", SHARES, "List the links to a job", {200: schemas.SharesAnswer})
def list_shares(request: Request) -> Response:
    shares = shares_of(request).of_job(request.path_params["job_id"], user_of(request))
    return json_answer(schemas.SharesAnswer(shares=[schemas.share_answer(share) for share in shares]))


@OPERATIONS.add("DELETE", SHARES + "/{share_id}", "Revoke a link", {204: None})
def revoke_share(request: Request) -> Response:
    job_id, share_id = request.path_params["job_id"], request.path_params["share_id"]
    shares_of(request).revoke(job_id, user_of(request), share_id, now=now())
    return Response(status_code=204)


@OPERATIONS.add(
    "GET",
    SHARED + "/{share_id}/files/{name}",
    "Download a file of a shared job; Range is honored",
    {200: FILES, 206: FILES, 304: None},
    more_errors=(416,),
    query=schemas.KeyQuery,
    callers=(),
)
def get_shared_file(request: Request, params: schemas.KeyQuery) -> Response:
    name = request.path_params["name"]
    artifact = shares_of(request).file(request.path_params["share_id"], params.key, name, now=now())
    jobs = conversion_of(request).jobs
    return artifact_stream(request, artifact, name, jobs.read)


def build_shared_url(request: Request, share_id: str, key: str) -> str:
    """The link. Its key stands in the query, which no log has."""
    return f"{find_reached_url(request)}/ui{SHARED}/{share_id}?key={key}"
