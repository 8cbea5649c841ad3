"""Two jobs side by side. The address names both, so it is a permalink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.errors import JobNotFound
from app.conversion.model import JobRecord
from app.conversion.service import Conversion
from app.conversion.service.comparison import LayerPair, compare
from app.conversion.service.quality.views import EXACT_DB
from app.conversion.store import JobFilter
from app.conversion.toolchains.base import SNR_DB_MIN
from app.kit.web import charts
from app.kit.web.auth import user_of
from app.kit.web.templates import render

RECENT = 30
LAYERS_SHOWN = 14


@dataclass(frozen=True)
class ComparedJob:
    """One of the two."""

    job_id: str
    """As the address names it; empty when none is chosen."""
    job: JobRecord | None
    """None when no such job is here."""

    @property
    def is_missing(self) -> bool:
        return bool(self.job_id) and self.job is None


def page(request: Request) -> Response:
    conversion, user = conversion_of(request), user_of(request)
    a, b = (_side(conversion, request.query_params.get(name, "").strip(), user) for name in ("a", "b"))
    recent, _ = conversion.jobs.page(JobFilter(), user, limit=RECENT, cursor=None)
    comparison = compare(conversion, a.job, b.job) if a.job and b.job else None
    return render(
        request,
        "conversion/compare.html",
        area="jobs",
        a=a,
        b=b,
        recent=recent,
        found=comparison,
        charts=charts,
        points=points,
        layers_shown=LAYERS_SHOWN,
        rule_db=SNR_DB_MIN,
        exact_db=EXACT_DB,
    )


def points(pairs: Sequence[LayerPair]) -> list[charts.ChartPoint]:
    """Layers by their SNR in both jobs."""
    return [
        charts.ChartPoint(
            x=pair.a.snr_db.shown or 0.0,
            y=pair.b.snr_db.shown or 0.0,
            tip=f"{pair.a.name} ({pair.a.op_type}): A {pair.a.snr_db.shown} dB, B {pair.b.snr_db.shown} dB",
            kind="is-better" if pair.change_db > 0 else "is-worse" if pair.change_db < 0 else "",
        )
        for pair in pairs
    ]


def _side(conversion: Conversion, job_id: str, user: str) -> ComparedJob:
    try:
        return ComparedJob(job_id, conversion.jobs.known(job_id, user) if job_id else None)
    except JobNotFound:
        return ComparedJob(job_id, None)


ROUTES = [Route("/ui/jobs/compare", page)]
