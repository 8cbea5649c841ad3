"""The quality section of a job: a fragment of the job's page, a page for browsers without JavaScript, CSV and JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.model.saturation import SaturationCurve
from app.conversion.pages.job_view import headline, notable_outputs, remarks, rule_of, saturating_groups
from app.conversion.service import quality as service
from app.conversion.service.quality import Quality
from app.conversion.service.quality.views import EXACT_DB, LayerQuality
from app.conversion.service.thumbnails import MEDIA_TYPE, thumbnail
from app.kit.web import charts
from app.kit.web.auth import user_of
from app.kit.web.downloads import CSV, text_file
from app.kit.web.http import query
from app.kit.web.strict import Strict
from app.kit.web.templates import TemplateContext, render

ROWS_SHOWN = 15
PICTURES_SHOWN = 12
FOR_EVER = "private, max-age=31536000, immutable"
NO_PICTURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" width="96" height="96">'
    '<path d="M4 5h16v14H4zM4 16l5-5 4 4 3-3 4 4" fill="none" stroke="#8a948e" stroke-width="1"/></svg>'
)
"""Placeholder for a sample that is not a picture."""


class LayersQuery(Strict):
    """How the layers are sorted and filtered."""

    order: Literal["worst", "graph", "alone"] = "worst"
    precision: Literal["all", "int8", "float"] = "all"
    rows: Literal["some", "all"] = "some"


def fragment(request: Request) -> Response:
    """Renders the section alone for htmx, or as a page otherwise."""
    chosen = query(request, LayersQuery)
    conversion, user = conversion_of(request), user_of(request)
    job = conversion.jobs.get(request.path_params["job_id"], user)
    quality = service.quality_of(conversion, job)
    template = "conversion/_quality.html" if "hx-request" in request.headers else "conversion/quality.html"
    layers = layers_context(quality, chosen.order, chosen.precision, chosen.rows)
    response = render(request, template, area="jobs", job=job, **build_quality_context(quality), **layers)
    response.headers["Vary"] = f"{response.headers['Vary']}, HX-Request"
    return response


def build_quality_context(quality: Quality) -> TemplateContext:
    """Returns what every template that shows measurements needs."""
    return {
        "quality": quality,
        "charts": charts,
        "layer_columns": layer_columns,
        "saturation_columns": saturation_columns,
        "pictures_shown": PICTURES_SHOWN,
        "rule_db": rule_of(quality),
        "exact_db": EXACT_DB,
        "saturating": saturating_groups(quality.saturating),
        "remarks": remarks(quality),
        "head": headline(quality),
        "notable": notable_outputs(quality.boundaries[1].outputs, rule_of(quality)),
    }


def layers_context(quality: Quality, order: service.Order, precision: service.Precision, rows: str) -> TemplateContext:
    """Returns what the table and the chart of the layers need.

    Args:
        order: of the layers.
        precision: show only layers of this precision.
        rows: `all`, or anything else for the first ROWS_SHOWN.
    """
    layers = service.choose_layers(quality, order, precision)
    shown = layers if rows == "all" else layers[:ROWS_SHOWN]
    return {"layers": layers, "rows": shown, "order": order, "precision": precision}


def as_csv(request: Request) -> Response:
    job_id, quality = _read_quality(request)
    return text_file(service.to_csv(quality), f"quality-{job_id[:8]}.csv", CSV)


def as_json(request: Request) -> Response:
    job_id, quality = _read_quality(request)
    return JSONResponse({"job_id": job_id, **service.to_json(quality)}, headers={"Cache-Control": "no-store"})


def picture(request: Request) -> Response:
    """Sends one of the worst samples as a small picture."""
    conversion = conversion_of(request)
    job = conversion.jobs.get(request.path_params["job_id"], user_of(request))
    data = thumbnail(conversion, job, service.quality_of(conversion, job), request.path_params["index"])
    if data is None:
        return Response(NO_PICTURE, media_type="image/svg+xml", headers={"Cache-Control": "no-store"})
    return Response(data, media_type=MEDIA_TYPE, headers={"Cache-Control": FOR_EVER})


def layer_columns(layers: Sequence[LayerQuality], snr: str, weights: str) -> list[charts.Column]:
    """Returns the two series of the layers' chart.

    Args:
        snr: label of the first series.
        weights: label of the second series.
    """
    return [
        charts.Column(
            label=str(layer.position),
            values=(layer.snr_db.shown, layer.weight_snr_db),
            tip=_format_tip(layer, snr, weights),
            kind="is-int8" if layer.is_int8 else "is-float",
        )
        for layer in layers
    ]


def saturation_columns(curve: SaturationCurve) -> list[charts.Column]:
    """Returns a column for each number of pictures."""
    return [
        charts.Column(
            label=str(point.samples),
            values=(point.snr_db,),
            tip=f"{point.samples}: {'–' if point.snr_db is None else _format_db(point.snr_db)}",
            kind="is-int8",
        )
        for point in curve.points
    ]


def _format_tip(layer: LayerQuality, snr: str, weights: str) -> str:
    parts = [f"{layer.position} {layer.name} ({layer.op_type})"]
    numbers = ((snr, layer.snr_db.shown), (weights, layer.weight_snr_db))
    parts += [f"{word} {_format_db(value)}" for word, value in numbers if value is not None]
    return " · ".join(parts)


def _format_db(value: float) -> str:
    return f"≥ {EXACT_DB:g} dB" if value >= EXACT_DB else f"{value:.1f} dB"


def _read_quality(request: Request) -> tuple[str, Quality]:
    conversion = conversion_of(request)
    job = conversion.jobs.get(request.path_params["job_id"], user_of(request))
    return job.job_id, service.quality_of(conversion, job)


ROUTES = [
    Route("/ui/jobs/{job_id}/quality", fragment),
    Route("/ui/jobs/{job_id}/quality.csv", as_csv),
    Route("/ui/jobs/{job_id}/quality.json", as_json),
    Route("/ui/jobs/{job_id}/samples/{index:int}", picture),
]
