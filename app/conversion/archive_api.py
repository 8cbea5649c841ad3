"""The JSON API of the archive. OPERATIONS is its table of routes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.conversion import archive_schemas as schemas
from app.conversion import model
from app.conversion.access import archive_of, conversion_of
from app.conversion.api import FILES, JOB_ID, artifact_stream
from app.conversion.archive_index import ArchiveFilter
from app.conversion.errors import NotArchived
from app.conversion.schemas import JobAnswer, JobChange
from app.conversion.service.descriptions import ArchivedJob
from app.kit.clock import to_text
from app.kit.objects import ObjectMissing
from app.kit.web.auth import user_of
from app.kit.web.operations import Operations

OPERATIONS = Operations(JOB_ID)


@OPERATIONS.get(
    "/archive",
    "List completed jobs, including those from before a reset, the last completed one first",
    schemas.ArchiveAnswer,
)
def list_archive(request: Request, params: schemas.ArchiveQuery) -> Response:
    user = user_of(request)
    if params.owner not in (None, user):  # others' jobs are as if there were none
        return JSONResponse({"jobs": [], "next_cursor": None})
    rows, cursor = archive_of(request).page(filter_of(params), user, limit=params.limit, cursor=params.cursor)
    return JSONResponse({"jobs": [{**asdict(row), "tags": list(row.tags)} for row in rows], "next_cursor": cursor})


def filter_of(params: schemas.ArchiveQuery) -> ArchiveFilter:
    """What the index is asked for."""
    return ArchiveFilter(
        text=params.q,
        tag=params.tag,
        model=params.model,
        toolchain=params.toolchain,
        platform=params.platform,
        verdict=params.verdict,
        snr_min_db=params.snr_min_db,
        snr_max_db=params.snr_max_db,
        since=to_text(params.since) if params.since else None,
        until=to_text(params.until) if params.until else None,
        is_kept=params.kept,
    )


@OPERATIONS.get("/archive/{job_id}", "Get a job of the archive", schemas.ArchivedJobAnswer)
def get_archived(request: Request, job_id: str) -> Response:
    return _answer_job(archive_of(request).get(job_id, user_of(request)))


@OPERATIONS.delete("/archive/{job_id}", "Delete a job of the archive with all its files")
def delete_archived(request: Request, job_id: str) -> None:
    archive_of(request).delete(job_id, user_of(request))


@OPERATIONS.patch(
    "/archive/{job_id}",
    "Change the name, tags or notes of a job of the archive, or keep it",
    schemas.ArchivedJobAnswer,
    more_errors=(507,),
)
def change_archived(request: Request, job_id: str, body: JobChange) -> Response:
    return _change(request, job_id, **body.model_dump(exclude_none=True))


@OPERATIONS.put(
    "/archive/{job_id}/keep",
    "Keep a job permanently, or let it expire again",
    schemas.ArchivedJobAnswer,
    more_errors=(507,),
)
def keep_archived(request: Request, job_id: str, body: schemas.ArchiveChange) -> Response:
    return _change(request, job_id, keep=body.is_kept)


def _change(request: Request, job_id: str, **values: Any) -> Response:
    archive, user = archive_of(request), user_of(request)
    archive.get(job_id, user)
    conversion_of(request).edits.change(job_id, user, **values)
    return _answer_job(archive.get(job_id, user))


@OPERATIONS.post(
    "/archive/{job_id}/convert",
    "Convert the inputs of a job of the archive again",
    {201: JobAnswer},
    more_errors=(409, 422, 429, 507),
)
def convert_again(request: Request, job_id: str) -> Response:
    """Submit once more what the job was made from."""
    try:
        record = archive_of(request).convert_again(job_id, user_of(request))
    except ObjectMissing:
        raise NotArchived(f"The inputs of job {job_id} are not stored.", hint="Upload them again.") from None
    headers = {"Location": f"/jobs/{record.job_id}"}
    return JSONResponse(conversion_of(request).job_json(record), status_code=201, headers=headers)


@OPERATIONS.get(
    "/archive/{job_id}/artifacts/{name}",
    "Download a file of a job of the archive; Range is honored",
    {200: FILES, 206: FILES, 304: None},
    more_errors=(416,),
)
def get_archived_file(request: Request, job_id: str, name: str) -> Response:
    archive = archive_of(request)
    artifact = archive.artifact(job_id, name, user_of(request))
    return artifact_stream(request, artifact, name, archive.read)


def _answer_job(archived: ArchivedJob) -> Response:
    job = {**model.to_json(archived.record), "queue_position": None, "is_far_over_usual_time": False}
    return JSONResponse({"job": job, "is_kept": archived.is_kept})
