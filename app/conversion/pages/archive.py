"""The archive: the list, the page of an archived job, and its actions: compare, download, convert again, keep,
delete."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import archive_of
from app.conversion.archive_index import ArchiveFilter
from app.conversion.archive_schemas import CURSOR
from app.conversion.model import Verdict
from app.conversion.options import Chip, ToolchainName
from app.conversion.pages import view_models
from app.conversion.pages.job_list import ARCHIVE, ActionReport
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import query
from app.kit.web.list_page import ListQuery
from app.kit.web.strict import TEXT
from app.kit.web.templates import render
from app.kit.web.zip_stream import zip_answer
from app.settings import settings_of

PAGE_JOBS = 40


class ArchiveListQuery(ListQuery, ActionReport):
    """The filter and the position in the list of archived jobs."""

    PAGE: ClassVar[str] = ARCHIVE
    NO_FILTERS: ClassVar[frozenset[str]] = ListQuery.NO_FILTERS | ActionReport.model_fields.keys()
    tag: Annotated[str, Field(max_length=50, pattern=TEXT)] | None = None
    model: Annotated[str, Field(pattern=r"^[0-9a-fA-F]{1,64}$")] | None = None
    verdict: Verdict | None = None
    target: Literal[ToolchainName.HOST] | Chip | None = None
    """What it was converted for: the host, or a chip."""
    snr: Annotated[float, Field(ge=-1000, le=1000)] | None = None
    """Lowest SNR of the worst output, in dB."""
    snr_max: Annotated[float, Field(ge=-1000, le=1000)] | None = None
    """Largest SNR of the worst output, in dB."""
    since: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    until: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] | None = None
    cursor: Annotated[str, Field(pattern=CURSOR)] | None = None
    kept: bool | None = None
    """Only jobs that are kept permanently, or only others."""

    def criteria(self) -> ArchiveFilter:
        return ArchiveFilter(
            text=self.q,
            tag=self.tag,
            model=self.model,
            toolchain=self.target if self.target is ToolchainName.HOST else None,
            platform=self.target if isinstance(self.target, Chip) else None,
            verdict=self.verdict,
            snr_min_db=self.snr,
            snr_max_db=self.snr_max,
            since=self.since,
            until=f"{self.until}T24" if self.until else None,  # all of that day: as text, T24 sorts last
            is_kept=self.kept,
        )


def archive(request: Request) -> Response:
    """Renders the list of archived jobs."""
    params = query(request, ArchiveListQuery)
    rows, older = archive_of(request).page(params.criteria(), user_of(request), limit=PAGE_JOBS, cursor=params.cursor)
    return render(
        request,
        "conversion/archive.html",
        area="archive",
        query=params,
        rows=rows,
        page_tags=sorted({tag for row in rows for tag in row.tags}),
        older=older,
        verdicts=list(Verdict),
        chips=list(Chip),
        days=settings_of(request).archive_days,
    )


def archived_job(request: Request) -> Response:
    """Renders an archived job."""
    job = archive_of(request).get(request.path_params["job_id"], user_of(request))
    return render(
        request,
        "conversion/archived_job.html",
        area="archive",
        job=job.record,
        is_kept=job.is_kept,
        is_confirming=request.query_params.get("delete") == "confirm",
        note=request.query_params.get("note"),
        files=view_models.files(job.record.artifacts),
        parameters=view_models.parameters(job.record.options),
        took=view_models.took_s(job.record),
        trained_by=view_models.find_training_task(job.record),
        fetched_from=view_models.find_source_uri(job.record),
        days=settings_of(request).archive_days,
    )


def delete(request: Request) -> Response:
    archive_of(request).delete(request.path_params["job_id"], user_of(request))
    return see_other("/ui/archive?note=deleted")


def all_files(request: Request) -> Response:
    """Streams every file of the job as one zip."""
    archived = archive_of(request)
    record = archived.get(request.path_params["job_id"], user_of(request)).record
    members = ((name, archived.read(artifact)) for name, artifact in sorted(record.artifacts.items()))
    return zip_answer(members, f"modelmill-{record.job_id[:8]}.zip")


ROUTES = [
    Route("/ui/archive", archive),
    Route("/ui/archive/{job_id}", archived_job),
    Route("/ui/archive/{job_id}/delete", delete, methods=["POST"]),
    Route("/ui/archive/{job_id}/all.zip", all_files),
]
