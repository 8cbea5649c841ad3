"""The pages of sweeps: the list, a new one over jobs that there are, and the table."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion import object_keys
from app.conversion.access import conversion_of
from app.conversion.model import SNR_DB_MIN, JobRecord
from app.conversion.options import ToolchainName
from app.conversion.pages.job_list import PAGE_JOBS, TABLE
from app.conversion.pages.pareto import ParetoView, view_of
from app.conversion.service.batches import BatchModel, Variant
from app.conversion.service.quality.candidates import Candidate
from app.conversion.store import JobFilter
from app.kit.errors import BadInput, ModelmillError
from app.kit.redis.change_hub import any_of
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import FilterForm, query
from app.kit.web.idempotency import form_once
from app.kit.web.page_actions import with_form
from app.kit.web.sse import change_stream
from app.kit.web.templates import TemplateContext, render
from app.sweeps.access import sweeps_of
from app.sweeps.job_table import differences, rows_of
from app.sweeps.model import RowAnswer
from app.sweeps.schemas import CURSOR, csv_answer, table_of
from app.sweeps.store import sweep_key

PAGE = "/ui/sweeps"
SHOWN = 50
JOBS_SHOWN = 30
MAX_READ = 2000
Method = Literal["minmax", "percentile", "entropy", "best"]
Scale = Literal["channel", "tensor"]


def _to_list(given: Any) -> Any:
    return (given,) if isinstance(given, str) else given


class SweepListQuery(FilterForm):
    cursor: Annotated[str, Field(pattern=CURSOR)] | None = None
    note: Annotated[str, Field(max_length=20)] = ""


class SweepForm(BaseModel):
    name: Annotated[str, Field(max_length=200)] = ""
    job: Annotated[tuple[str, ...], BeforeValidator(_to_list), Field(max_length=JOBS_SHOWN)] = ()
    method: Annotated[tuple[Method, ...], BeforeValidator(_to_list)] = ()
    scale: Annotated[tuple[Scale, ...], BeforeValidator(_to_list)] = ()


def sweeps(request: Request) -> Response:
    params = query(request, SweepListQuery)
    page, older = sweeps_of(request).page(user_of(request), cursor=params.cursor, limit=SHOWN)
    return render(request, "sweeps/sweeps.html", area="sweeps", sweeps=page, older=older, note=params.note)


def new(request: Request) -> Response:
    return _render_new(
        request, SweepForm(job=_read_job_ids(request)[:JOBS_SHOWN], method=("minmax",), scale=("channel",))
    )


def job_table(request: Request) -> Response:
    """Renders the jobs that the URL names side by side, from any sweep or none."""
    jobs = conversion_of(request).jobs.known_several(_read_job_ids(request), user_of(request))
    rows = rows_of(jobs)
    context: TemplateContext = {"rows": rows, "pareto": _plot_pareto(rows), "differences": differences(jobs)}
    ids = urlencode({"job": [job.job_id for job in jobs]}, doseq=True)
    return render(request, "sweeps/jobs.html", area="jobs", ids=ids, rule_db=SNR_DB_MIN, **context)


def job_table_csv(request: Request) -> Response:
    jobs = conversion_of(request).jobs.known_several(_read_job_ids(request), user_of(request))
    return csv_answer(table_of(rows_of(jobs)), "jobs.csv")


@with_form(SweepForm)
def create(request: Request, fields: SweepForm) -> Response:
    try:
        view = _create(request, fields)
    except ModelmillError as error:
        return _render_new(request, fields, error)
    return see_other(f"{PAGE}/{view}")


def sweep(request: Request) -> Response:
    view = sweeps_of(request).view(user_of(request), request.path_params["sweep_id"])
    context: TemplateContext = {"view": view, "pareto": _plot_pareto(view.rows), "rule_db": SNR_DB_MIN}
    return render(request, "sweeps/sweep.html", area="sweeps", **context)


def events(request: Request) -> Response:
    """Signals to the page that the sweep, or some job, has changed."""
    sweep = sweeps_of(request).get(user_of(request), request.path_params["sweep_id"])
    return change_stream(request, sweep_key(sweep.sweep_id), any_of("job"))


def cancel(request: Request) -> Response:
    sweep_id = request.path_params["sweep_id"]
    sweeps_of(request).cancel(user_of(request), sweep_id)
    return see_other(f"{PAGE}/{sweep_id}")


def delete(request: Request) -> Response:
    sweeps_of(request).delete(user_of(request), request.path_params["sweep_id"])
    return see_other(f"{PAGE}?note=deleted")


def _read_job_ids(request: Request) -> tuple[str, ...]:
    """Returns the ids of the jobs that the URL names."""
    return tuple(request.query_params.getlist("job"))[:PAGE_JOBS]


def _plot_pareto(rows: Sequence[RowAnswer]) -> ParetoView:
    """Returns the plots. With several models no front is drawn, since their quality cannot be compared."""
    best = frozenset(row.position for row in rows if row.is_best)
    candidates = [
        Candidate(
            row.position,
            f"{row.model_name} · {row.variant}",
            snr_db=row.snr_db,
            size_bytes=row.size_bytes,
            latency_ms=row.latency_ms,
        )
        for row in rows
    ]
    models = {row.model_name for row in rows}
    return view_of(candidates, SNR_DB_MIN, front=best if len(models) > 1 else None)


def _render_new(request: Request, given: SweepForm, error: ModelmillError | None = None) -> Response:
    jobs = _list_bases(request, given.job)
    return render(request, "sweeps/new.html", area="sweeps", jobs=jobs, given=given, error=error)


def _list_bases(request: Request, chosen: Sequence[str]) -> list[JobRecord]:
    """Returns jobs whose model and samples a sweep can use: those of the host toolchain, whose options the form
    knows; the chosen ones also if they are old, or only the archive has them."""
    jobs, user = conversion_of(request).jobs, user_of(request)
    job_filter = JobFilter(toolchain=ToolchainName.HOST.value)
    newest = jobs.page(job_filter, user, limit=JOBS_SHOWN, cursor=None, max_read=MAX_READ)[0]
    listed = {job.job_id for job in newest}
    older = jobs.known_several([job_id for job_id in chosen if job_id not in listed], user)
    return [*newest, *(job for job in older if job.options.toolchain is ToolchainName.HOST)]


def _create(request: Request, fields: SweepForm) -> str:
    records = conversion_of(request).jobs.known_several(fields.job, user_of(request))
    if not (records and fields.method and fields.scale):
        raise BadInput(
            "A sweep needs a job whose model it takes, and at least one setting of each kind.", hint="Tick one of each."
        )
    models = [
        BatchModel(
            (record.name or record.job_id)[:80],
            object_keys.input_(record.job_id, object_keys.MODEL),
            object_keys.input_(record.job_id, object_keys.IMAGES),
            record.options.model_dump(mode="json", exclude_defaults=True),
        )
        for record in records
    ]
    variants = [
        Variant(f"{method}, per {scale}", {"quantization": {"method": method, "per_channel": scale == "channel"}})
        for method, scale in product(fields.method, fields.scale)
    ]
    return sweeps_of(request).begin(user_of(request), models, variants, name=fields.name.strip(), tags=())


ROUTES = [
    Route(PAGE, sweeps),
    Route(f"{PAGE}/new", new),
    Route(f"{PAGE}/new", form_once(create), methods=["POST"]),
    Route(TABLE, job_table),
    Route(f"{TABLE}.csv", job_table_csv),
    Route(PAGE + "/{sweep_id}", sweep),
    Route(PAGE + "/{sweep_id}/events", events),
    Route(PAGE + "/{sweep_id}/cancel", cancel, methods=["POST"]),
    Route(PAGE + "/{sweep_id}/delete", delete, methods=["POST"]),
]
