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


@OPERATIONS.post(
    SHARES,
    "Create a link with which others see the job and download its files without an account",
    {201: schemas.NewShareAnswer},
    more_errors=(429,),
)
def share_job(request: Request, job_id: str, body: schemas.NewShare) -> Response:
    user = user_of(request)
    share, key = shares_of(request).add(job_id, user, days=body.days, label=body.label, now=now())
    return json_answer(schemas.new_share_answer(share, build_shared_url(request, share.share_id, key)), 201)


@OPERATIONS.get(SHARES, "List the links to a job", schemas.SharesAnswer)
def list_shares(request: Request, job_id: str) -> Response:
    shares = shares_of(request).of_job(job_id, user_of(request))
    return json_answer(schemas.SharesAnswer(shares=[schemas.share_answer(share) for share in shares]))


@OPERATIONS.delete(SHARES + "/{share_id}", "Revoke a link")
def revoke_share(request: Request, job_id: str, share_id: str) -> None:
    shares_of(request).revoke(job_id, user_of(request), share_id, now=now())


@OPERATIONS.get(
    SHARED + "/{share_id}/files/{name}",
    "Download a file of a shared job; Range is honored",
    {200: FILES, 206: FILES, 304: None},
    more_errors=(416,),
    callers=(),
)
def get_shared_file(request: Request, share_id: str, name: str, params: schemas.KeyQuery) -> Response:
    artifact = shares_of(request).file(share_id, params.key, name, now=now())
    jobs = conversion_of(request).jobs
    return artifact_stream(request, artifact, name, jobs.read)


def build_shared_url(request: Request, share_id: str, key: str) -> str:
    """The link. Its key stands in the query, which no log has."""
    return f"{find_reached_url(request)}/ui{SHARED}/{share_id}?key={key}"
