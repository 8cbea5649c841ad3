"""The JSON API of conversion: endpoints parse, call one use case, render. OPERATIONS is its table of routes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from app.conversion import object_keys, schemas
from app.conversion.access import conversion_of
from app.conversion.model import Artifact, JobRecord, Stage
from app.conversion.service import Conversion
from app.conversion.service.submissions import Submission
from app.conversion.service.system import read_system
from app.conversion.store import JobFilter
from app.conversion.system_schemas import SystemAnswer
from app.conversion.upload_receiver import receive_upload
from app.kit.clock import now, to_text
from app.kit.errors import NotFound
from app.kit.redis.change_hub import ChangeHub
from app.kit.text.json_values import JsonObject
from app.kit.web.auth import user_of
from app.kit.web.downloads import stream_bytes
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations
from app.kit.web.public_address import rewrite_link
from app.kit.web.sse import EventFrames, event_stream, frame, hub_of, record_frames
from app.settings import settings_of

OTHER_MEDIA_TYPE = "application/octet-stream"
MEDIA_TYPES = {".json": "application/json", ".log": "text/plain; charset=utf-8", ".zip": "application/zip"}
_MULTIPART = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {
                    **schemas.MODEL_FILES,
                    "images": {
                        "type": "array",
                        "items": {"type": "string", "format": "binary"},
                        "description": "a ZIP file, or several pictures, .npy or .npz files",
                    },
                },
            }
        }
    },
}
FILES = (OTHER_MEDIA_TYPE, *(kind.partition(";")[0] for kind in MEDIA_TYPES.values()))
JOB_ID = {"job_id": {"type": "string", "format": "uuid"}}
_STEP: dict[str, JsonObject] = {**JOB_ID, "step": {"type": "string", "enum": [stage.step for stage in Stage]}}
OPERATIONS = Operations({**_STEP, **JOB_ID})


@OPERATIONS.post(
    "/uploads",
    "Upload a model, its reference pictures, or both",
    {201: schemas.UploadAnswer},
    more_errors=(415, 507),
    body=_MULTIPART,
)
async def upload(request: Request) -> Response:
    user = user_of(request)
    answer = await receive_upload(request, conversion_of(request).uploads, user)
    return JSONResponse(answer.model_dump(), status_code=201)


@OPERATIONS.post(
    "/uploads/presign",
    "Create links for uploading inputs directly to the object store with PUT",
    {201: schemas.LinksAnswer},
    more_errors=(507,),
)
def presign_uploads(request: Request, body: schemas.NewLinks) -> Response:
    names = [
        name
        for name, is_included in ((object_keys.MODEL, body.model), (object_keys.IMAGES, body.images))
        if is_included
    ]
    links_by_name = conversion_of(request).uploads.presign(user_of(request), names)
    for link in links_by_name["links"].values():
        link["url"] = rewrite_link(request, link["url"])
    answer = {
        "upload_id": links_by_name["upload_id"],
        "expires_at": links_by_name["expires_at"],
        "model": links_by_name["links"].get(object_keys.MODEL),
        "images": links_by_name["links"].get(object_keys.IMAGES),
    }
    return JSONResponse(answer, status_code=201)


@OPERATIONS.post(
    "/jobs", "Create a conversion job from uploaded inputs", {201: schemas.JobAnswer}, more_errors=(429, 507)
)
def create_job(request: Request, body: schemas.NewJob) -> Response:
    submission = Submission(
        model_key=body.model_key,
        quant_key=body.quant_key,
        owner=user_of(request),
        name=body.name,
        tags=tuple(body.tags),
        options=body.options,
        no_cache=body.no_cache,
    )
    conversion = conversion_of(request)
    record = conversion.submissions.submit(submission)
    return job_response(conversion, record, 201, {"Location": f"/jobs/{record.job_id}"})


@OPERATIONS.get("/jobs", "List jobs, newest first", schemas.JobsAnswer, more_errors=(400,))
def list_jobs(request: Request, params: schemas.JobQuery) -> Response:
    job_filter = JobFilter(
        status=params.status, toolchain=params.toolchain, platform=params.platform, owner=params.owner, text=params.q
    )
    conversion = conversion_of(request)
    records, cursor = conversion.jobs.page(job_filter, user_of(request), limit=params.limit, cursor=params.cursor)
    return JSONResponse({"jobs": [conversion.job_json(record) for record in records], "next_cursor": cursor})


@OPERATIONS.get(
    "/jobs/{job_id}", "Get a job", schemas.JobAnswer, version_fields=("status", "name", "tags", "notes", "keep")
)
def get_job(request: Request, job_id: str) -> Response:
    conversion = conversion_of(request)
    return job_response(conversion, conversion.jobs.get(job_id, user_of(request)))


@OPERATIONS.post("/jobs/{job_id}/cancel", "Cancel a queued or running job", schemas.JobAnswer, more_errors=(409,))
def cancel_job(request: Request, job_id: str) -> Response:
    conversion = conversion_of(request)
    return job_response(conversion, conversion.jobs.cancel(job_id, user_of(request)))


@OPERATIONS.delete("/jobs/{job_id}", "Delete a finished job and its files", more_errors=(409,))
def delete_job(request: Request, job_id: str) -> None:
    conversion_of(request).jobs.delete(job_id, user_of(request))


@OPERATIONS.get(
    "/jobs/{job_id}/events",
    "Follow a job by server-sent events: its status at every change, then done",
    ("text/event-stream",),
)
async def job_events(request: Request, job_id: str) -> Response:
    """The state at once, then at every change; ends with `done`, or with `gone` when the record was forgotten."""
    user = user_of(request)
    conversion = conversion_of(request)
    await run_in_threadpool(conversion.jobs.get, job_id, user)
    return event_stream(request, job_frames(hub_of(request), conversion, job_id, user))


@OPERATIONS.get(
    "/jobs/{job_id}/logs/{step}",
    "Read the log of a stage from an offset, during or after the stage",
    ("text/plain",),
    headers={"X-Log-Next-Offset": "offset to ask for next", "X-Log-Complete": "true when nothing will follow"},
)
def job_log(request: Request, job_id: str, step: str, params: schemas.LogQuery) -> Response:
    stage = _describe_stage(step)
    portion = conversion_of(request).jobs.log(job_id, stage, params.offset, user_of(request))
    headers = {
        "X-Log-Next-Offset": str(portion.next_offset),
        "X-Log-Complete": "true" if portion.is_complete else "false",
        "Cache-Control": "no-store",
    }
    return Response(portion.text, media_type="text/plain; charset=utf-8", headers=headers)


@OPERATIONS.get("/jobs/{job_id}/artifacts", "List the files of a job", schemas.ArtifactsAnswer)
def list_artifacts(request: Request, job_id: str) -> Response:
    record = conversion_of(request).jobs.get(job_id, user_of(request))
    artifacts = [{"name": name, **vars(artifact)} for name, artifact in sorted(record.artifacts.items())]
    return JSONResponse({"artifacts": artifacts})


@OPERATIONS.get(
    "/jobs/{job_id}/artifacts/{name}",
    "Download a file of a job; Range is honored",
    {200: FILES, 206: FILES, 304: None},
    more_errors=(416,),
)
def get_artifact(request: Request, job_id: str, name: str) -> Response:
    jobs = conversion_of(request).jobs
    artifact = jobs.artifact(job_id, name, user_of(request))
    return artifact_stream(request, artifact, name, jobs.read)


def artifact_stream(
    request: Request, artifact: Artifact, name: str, read: Callable[[Artifact, int, int], Iterator[bytes]]
) -> Response:
    """A file of a job as a download, by any of the endpoints that give one.

    Args:
        name: of the file.
        read: yields the bytes start <= i < end.
    """
    return stream_bytes(
        request,
        lambda start, end: read(artifact, start, end),
        size=artifact.size_bytes,
        etag=artifact.sha256,
        name=name,
        media_type=media_type_of(name),
    )


def media_type_of(name: str) -> str:
    return MEDIA_TYPES.get(f".{name.rpartition('.')[2]}", OTHER_MEDIA_TYPE)


@OPERATIONS.get("/jobs/{job_id}/artifacts/{name}/link", "Create a temporary link to a file", schemas.LinkAnswer)
def link_artifact(request: Request, job_id: str, name: str) -> Response:
    """A link that needs no log-in and expires: for wget on the device."""
    jobs = conversion_of(request).jobs
    artifact = jobs.artifact(job_id, name, user_of(request))
    ttl_s = settings_of(request).presign_ttl_s
    url = rewrite_link(request, jobs.link(artifact, name, expires_s=ttl_s))
    return JSONResponse({"url": url, "expires_at": to_text(now() + timedelta(seconds=ttl_s))})


@OPERATIONS.get("/system", "Get workers, queues, health and versions", SystemAnswer, errors=())
def get_system(request: Request) -> Response:
    """Workers, queues, health and versions; what is away is said with status 200."""
    system = read_system(conversion_of(request), settings_of(request), user_of(request), now())
    return json_answer(SystemAnswer.model_validate(system))


def _describe_stage(step: str) -> Stage:
    for stage in Stage:
        if stage.step == step:
            return stage
    raise NotFound(f"There is no step {step!r}.", hint="The steps are onnx, bie and nef.")


def job_response(
    conversion: Conversion, record: JobRecord, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    """A job as JSON, as every endpoint answers it.

    Args:
        headers: beside the usual ones; None: no others.
    """
    return JSONResponse(conversion.job_json(record), status_code=status, headers=headers)


MIN_FRAME_GAP_S = 0.05


def job_frames(hub: ChangeHub, conversion: Conversion, job_id: str, user: str) -> AsyncIterator[bytes]:
    """The events of a job's stream. It ends with `done`, or with `gone` when the record was forgotten.

    Args:
        hub: tells when the record has changed.
        user: another's job is as if there were none.
    """
    return record_frames(
        hub, f"job:{job_id}", user, lambda: _open_frames(conversion, job_id, user), gap_s=MIN_FRAME_GAP_S
    )


def _open_frames(conversion: Conversion, job_id: str, user: str) -> EventFrames:
    try:
        record = conversion.jobs.get(job_id, user)
    except NotFound as error:
        return EventFrames(b"", frame("gone", json.dumps({"error": error.to_dict()})))
    text = json.dumps(conversion.job_json(record))
    return EventFrames(frame("status", text), frame("done", text) if record.is_terminal else b"")
