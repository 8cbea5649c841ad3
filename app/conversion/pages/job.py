"""The page of one job, the fragments that keep it current, and its actions: cancel, delete, download all files.

The page, the poll and the stream render the same templates. The stream of /jobs/{job_id}/events only signals a change;
the browser then fetches `live`.
"""

from __future__ import annotations

from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.errors import JobFinished
from app.conversion.model import CANCELLED, JobRecord, Stage, StageState
from app.conversion.pages import view_models
from app.conversion.pages.job_actions import action_context, apply_action
from app.conversion.pages.job_tabs import JobTabQuery, log_text, panel, tab_links
from app.conversion.pages.job_view import facts_beyond_reason, measure_wait_s, new_lines, stage_spans, state_icon
from app.conversion.pages.quality import build_quality_context
from app.conversion.pages.results import render_gone
from app.conversion.service.estimates import Outlook
from app.conversion.service.failures import blame_of, earlier_failures
from app.conversion.service.quality import Reports, reports_of
from app.kit.clock import now
from app.kit.errors import ModelmillError, NotFound
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import query
from app.kit.web.idempotency import form_once
from app.kit.web.live_fragment import reloads_when_gone
from app.kit.web.page_actions import with_fields
from app.kit.web.templates import TemplateContext, render
from app.kit.web.zip_stream import zip_answer

FAILURE_LINES = 12
RUNNING_LINES = 3
REDRAWN_S = 20
"""Even if the job has not changed, a fragment is rendered again after this time, since its estimate becomes
outdated."""


def job(request: Request) -> Response:
    """Renders the page of a job."""
    try:
        record = _load_record(request)
    except NotFound:
        return render_gone(request)
    criteria = query(request, JobTabQuery)
    return render(request, "conversion/job.html", **_build_context(request, record, criteria), note=criteria.note)


@reloads_when_gone
def live(request: Request) -> Response:
    """Sends what changes while a job runs, or 204 if the page shows this version (`seen`) already."""
    record = _load_record(request)
    criteria = query(request, JobTabQuery)
    seen = request.query_params.get("seen", "")
    if seen == _digest_version(record, conversion_of(request).estimates.outlook(record, now())):
        return Response(status_code=204)
    is_measured_anew = seen.rpartition("-")[2] != _digest_measured(record)
    context = _build_context(request, record, criteria, has_panel=is_measured_anew)
    return render(request, "conversion/_job_update.html", **context, is_measured_anew=is_measured_anew)


def _load_record(request: Request) -> JobRecord:
    return conversion_of(request).jobs.get(request.path_params["job_id"], user_of(request))


def _build_context(
    request: Request, record: JobRecord, criteria: JobTabQuery, *, has_panel: bool = True
) -> TemplateContext:
    """Returns the context of the page, or of the answer to its poll.

    Args:
        has_panel: include the content of the open tab.
    """
    reports, is_unread = _load_reports(request, record)
    quality = reports.quality(record.options.toolchain.value)
    parameters = view_models.parameters(record.options)
    changed = [one for one in parameters if not one.is_default]
    measured = build_quality_context(quality)
    return {
        "area": "jobs",
        **_build_live_context(request, record),
        **measured,
        **action_context(record, quality, reports.bie),
        "is_unread": is_unread,
        "parameters": parameters,
        "changed": changed,
        "trained_by": view_models.find_training_task(record),
        "fetched_from": view_models.find_source_uri(record),
        "tab": criteria.tab.value,
        "tabs": tab_links(record, quality, len(changed)),
        **(panel(request, record, quality, criteria) if has_panel else {}),
    }


def _load_reports(request: Request, record: JobRecord) -> tuple[Reports, bool]:
    """Returns the reports, and whether they could not be read: the page is useful without them."""
    try:
        return reports_of(conversion_of(request), record), False
    except (ModelmillError, ValueError):
        return Reports(), True


def _build_live_context(request: Request, record: JobRecord) -> TemplateContext:
    outlook = conversion_of(request).estimates.outlook(record, now())
    reason = record.error.reason if record.error else ""
    return {
        "job": record,
        "outlook": outlook,
        "seen": _digest_version(record, outlook),
        "stages": [(stage, record.stages[stage.step], view_models.ran_s(record.stages[stage.step])) for stage in Stage],
        "spans": stage_spans(record),
        "icon_state": state_icon(record),
        "took": view_models.took_s(record),
        "waited": measure_wait_s(record),
        "files": view_models.files(record.artifacts),
        "expires_at": conversion_of(request).expiry.ends_at(record),
        "is_cancelled": record.error is not None and record.error.code == CANCELLED,
        "facts": facts_beyond_reason(reason, view_models.facts(record.error.detail)) if record.error else [],
        "last_lines": new_lines([reason, record.error.hint if record.error else ""], _read_last_lines(request, record)),
        "blame": blame_of(record.error).value if record.error else "",
        "earlier": earlier_failures(conversion_of(request), record),
    }


def _digest_version(record: JobRecord, outlook: Outlook | None) -> str:
    """Returns an identifier of what is shown, which is equal as long as the page would look the same. Its last part
    counts the measured stages."""
    what = f"{record.status} {record.updated_at}"
    if outlook is not None:
        what += f" {outlook.ahead} {outlook.workers} {int(now().timestamp() // REDRAWN_S)}"
    return f"{sha256(what.encode()).hexdigest()[:12]}-{_digest_measured(record)}"


def _digest_measured(record: JobRecord) -> str:
    """Changes when the tabs have something new to show: a stage has reported, or the job has ended."""
    done = sum(stage.state is StageState.DONE for stage in record.stages.values())
    return f"{done}{'e' if record.is_terminal else ''}"


def _read_last_lines(request: Request, record: JobRecord) -> list[str]:
    """Returns the last lines of the log of the failed or running stage."""
    is_running = not record.is_terminal and record.current.state is StageState.RUNNING
    if not is_running and (record.error is None or record.error.code == CANCELLED):
        return []
    lines = log_text(request, record, record.stage).rstrip().splitlines()
    return lines[-RUNNING_LINES if is_running else -FAILURE_LINES :]


def cancel(request: Request) -> Response:
    """Cancels a job. If it has ended in the meantime, its page just shows how it ended."""
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
    """Streams every file of the job as one zip."""
    jobs = conversion_of(request).jobs
    record = jobs.get(request.path_params["job_id"], user_of(request))
    members = ((name, jobs.read(artifact)) for name, artifact in sorted(record.artifacts.items()))
    return zip_answer(members, f"modelmill-{record.job_id[:8]}.zip")


@with_fields(1024, "An action")
def apply(request: Request, fields: dict[str, str]) -> Response:
    """Carries out a recommended action: converts again with the changed options."""
    made = apply_action(request, fields.get("action", ""))
    return see_other(f"/ui/jobs/{made.job_id}?note=applied")


ROUTES = [
    Route("/ui/jobs/{job_id}", job),
    Route("/ui/jobs/{job_id}/live", live),
    Route("/ui/jobs/{job_id}/cancel", cancel, methods=["POST"]),
    Route("/ui/jobs/{job_id}/delete", delete, methods=["POST"]),
    Route("/ui/jobs/{job_id}/all.zip", all_files),
    Route("/ui/jobs/{job_id}/apply", form_once(apply), methods=["POST"]),
]
