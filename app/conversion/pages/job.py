"""The page of one job, the fragments that keep it current, and what can be done there: cancel, delete, take all files.

Page, poll and stream render the same templates. The stream of /jobs/{job_id}/events only signals; what the browser
then fetches is `live`.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.errors import JobFinished
from app.conversion.model import CANCELLED, JobRecord, Stage, StageState
from app.conversion.pages import view_models
from app.conversion.pages.results import gone_page
from app.conversion.service.estimates import Outlook
from app.kit.clock import now
from app.kit.errors import NotFound
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.live_fragment import reload_page
from app.kit.web.templates import render
from app.kit.web.zip_stream import zip_stream
from app.settings import settings_of

TAIL_BYTES = 32 << 10
FAILURE_LINES = 12
REDRAWN_S = 20
"""A fragment whose job stands still is drawn anew this often, for its estimate grows old."""


def job(request: Request) -> Response:
    try:
        record = _record(request)
    except NotFound:
        return gone_page(request)
    stage = view_models.log_stage(record)
    context = _live_context(request, record) | {
        "area": "jobs",
        "parameters": view_models.parameters(record.options),
        "trained_by": view_models.trained_by(record),
        "log_stage": stage,
        "log_text": _log_tail(request, record, stage),
        "note": request.query_params.get("note", ""),
    }
    return render(request, "conversion/job.html", **context)


def live(request: Request) -> Response:
    """What changes while a job runs. 204 when that is what the page shows already (`seen`)."""
    try:
        record = _record(request)
    except NotFound:
        return reload_page()  # the page then says what happened
    context = _live_context(request, record)
    seen = request.query_params.get("seen", "")
    if seen == context["seen"]:
        return Response(status_code=204)
    is_measured_anew = seen.rpartition("-")[2] != context["seen"].rpartition("-")[2]
    return render(request, "conversion/_job_update.html", **context, is_measured_anew=is_measured_anew)


def _record(request: Request) -> JobRecord:
    return conversion_of(request).jobs.get(request.path_params["job_id"], user_of(request))


def _live_context(request: Request, record: JobRecord) -> dict[str, Any]:
    outlook = conversion_of(request).estimates.outlook(record, now())
    return {
        "job": record,
        "outlook": outlook,
        "seen": _version(record, outlook),
        "stages": [(stage, record.stages[stage.step], view_models.ran_s(record.stages[stage.step])) for stage in Stage],
        "took": view_models.took_s(record),
        "files": view_models.files(record.artifacts),
        "expires_at": view_models.expires_at(record, settings_of(request).record_ttl_s),
        "measured": _measured(record),
        "is_cancelled": record.error is not None and record.error.code == CANCELLED,
        "facts": view_models.facts(record.error.detail) if record.error else [],
        "last_lines": _last_lines(request, record),
    }


def _version(record: JobRecord, outlook: Outlook | None) -> str:
    """Names what is shown: equal while nothing would look different. Its end counts the stages that were measured."""
    what = f"{record.status} {record.updated_at}"
    if outlook is not None:
        what += f" {outlook.ahead} {outlook.workers} {int(now().timestamp() // REDRAWN_S)}"
    return f"{sha256(what.encode()).hexdigest()[:12]}-{_measured(record)}"


def _measured(record: JobRecord) -> int:
    return sum(stage.state is StageState.DONE for stage in record.stages.values())


def _log_tail(request: Request, record: JobRecord, stage: Stage) -> str:
    return conversion_of(request).jobs.log_tail(record, stage, TAIL_BYTES).decode("utf-8", "replace")


def _last_lines(request: Request, record: JobRecord) -> list[str]:
    """What the failed stage wrote last."""
    if record.error is None or record.error.code == CANCELLED:
        return []
    return _log_tail(request, record, record.stage).rstrip().splitlines()[-FAILURE_LINES:]


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
    Route("/ui/jobs/{job_id}", job),
    Route("/ui/jobs/{job_id}/live", live),
    Route("/ui/jobs/{job_id}/cancel", cancel, methods=["POST"]),
    Route("/ui/jobs/{job_id}/delete", delete, methods=["POST"]),
    Route("/ui/jobs/{job_id}/all.zip", all_files),
]
