"""What can be done on a job's page: cancel it, delete it, take all its files. By plain forms and links."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.errors import JobFinished
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.zip_stream import zip_stream


def cancel(request: Request) -> Response:
    """A job that ended before the click arrived needs no cancelling: its page says how it ended."""
    job_id = request.path_params["job_id"]
    try:
        conversion_of(request).jobs.cancel(job_id, user_of(request))
    except JobFinished:
        return see_other(f"/ui/jobs/{job_id}?note=too-late")
    return see_other(f"/ui/jobs/{job_id}")


def delete(request: Request) -> Response:
    conversion_of(request).jobs.delete(request.path_params["job_id"], user_of(request))
    return see_other("/ui/jobs?note=deleted")


def all_files(request: Request) -> Response:
    """Every file of the job as one zip, streamed."""
    jobs = conversion_of(request).jobs
    record = jobs.get(request.path_params["job_id"], user_of(request))
    members = ((name, jobs.read(artifact)) for name, artifact in sorted(record.artifacts.items()))
    headers = {
        "Content-Disposition": f'attachment; filename="modelmill-{record.job_id[:8]}.zip"',
        "Cache-Control": "private, no-store",
    }
    return StreamingResponse(zip_stream(members), media_type="application/zip", headers=headers)


ROUTES = [
    Route("/ui/jobs/{job_id}/cancel", cancel, methods=["POST"]),
    Route("/ui/jobs/{job_id}/delete", delete, methods=["POST"]),
    Route("/ui/jobs/{job_id}/all.zip", all_files),
]
