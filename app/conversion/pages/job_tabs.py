"""The tabs of a job's page: plain links, each with what its panel needs in addition to the page's context."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, Field
from starlette.requests import Request

from app.conversion.access import conversion_of
from app.conversion.model import JobRecord, Stage, Status
from app.conversion.pages import pareto, view_models
from app.conversion.pages.answers import answers_context
from app.conversion.pages.graph_view import GraphColour, GraphFileName, graph_context
from app.conversion.pages.job_view import rule_of
from app.conversion.pages.quality import layers_context
from app.conversion.service.graphs import graph_files
from app.conversion.service.quality import Quality
from app.conversion.service.quality.actions import candidate_actions
from app.conversion.service.quality.candidates import Measure
from app.kit.web.public_address import find_reached_url
from app.kit.web.templates import TemplateContext

TAIL_BYTES = 32 << 10
SATURATION_SAMPLES = 8
"""With fewer samples the number of samples has little influence that could be measured."""


class Tab(StrEnum):
    """The tabs, as they are named in the URL."""

    OVERVIEW = "overview"
    LAYERS = "layers"
    OUTPUTS = "outputs"
    PICTURES = "pictures"
    GRAPH = "graph"
    LOG = "log"
    OPTIONS = "options"
    API = "api"


class JobTabQuery(BaseModel):
    """The parameters of a job's page."""

    tab: Tab = Tab.OVERVIEW
    note: str = ""
    order: Literal["worst", "graph", "alone"] = "worst"
    precision: Literal["all", "int8", "float"] = "all"
    rows: Literal["some", "all"] = "some"
    measure: Measure | None = None
    """What candidates are compared by; None: as the goal does."""
    picture: int | None = Field(default=None, ge=0)
    zoom: int = Field(default=1, ge=1, le=4)
    draw: bool = False
    """Make the answers now, even though it takes some time."""
    file: GraphFileName = ""
    colour: GraphColour = "snr"
    beside: bool = False
    """Show all graphs side by side."""


@dataclass(frozen=True)
class TabLink:
    """The link of a tab."""

    tab: Tab
    count: int | None
    """Number of items behind the tab; None if there is nothing to count."""


def tab_links(record: JobRecord, quality: Quality, changed: int) -> list[TabLink]:
    """Returns all tabs, including those that have nothing to show yet.

    Args:
        quality: of the job.
        changed: number of parameters that are not the default.
    """
    counts = {
        Tab.LAYERS: len(quality.layers),
        Tab.OUTPUTS: len(quality.boundaries[1].outputs),
        Tab.PICTURES: len(quality.worst_samples),
        Tab.GRAPH: len(graph_files(record)),
        Tab.OPTIONS: changed,
    }
    return [TabLink(tab, counts.get(tab) or None) for tab in Tab]


def panel(request: Request, record: JobRecord, quality: Quality, criteria: JobTabQuery) -> TemplateContext:
    """Returns the context of the tab's template.

    Args:
        quality: of the job.
        criteria: which tab, and how it is sorted and filtered.
    """
    return PANELS.get(criteria.tab, _build_nothing)(request, record, quality, criteria)


def log_text(request: Request, record: JobRecord, stage: Stage) -> str:
    return conversion_of(request).jobs.log_tail(record, stage, TAIL_BYTES).decode("utf-8", "replace")


def _build_nothing(_request: Request, _record: JobRecord, _quality: Quality, _query: JobTabQuery) -> TemplateContext:
    return {}


def _build_overview(request: Request, record: JobRecord, quality: Quality, criteria: JobTabQuery) -> TemplateContext:
    search = quality.search
    return {
        **answers_context(request, record, quality),
        "pareto": pareto.plots(search, rule_of(quality), quality.goal, criteria.measure) if search else None,
        "can_be_made": {one.params["id"] for one in candidate_actions(record.options, search) if one.options_patch},
    }


def _build_layers(_request: Request, _record: JobRecord, quality: Quality, criteria: JobTabQuery) -> TemplateContext:
    return layers_context(quality, criteria.order, criteria.precision, criteria.rows)


def _build_pictures(request: Request, record: JobRecord, quality: Quality, criteria: JobTabQuery) -> TemplateContext:
    context = answers_context(request, record, quality, make=criteria.draw)
    at = criteria.picture if criteria.picture is not None and criteria.picture < len(quality.worst_samples) else None
    can_measure = record.status is Status.COMPLETED and quality.toolchain == "host"
    has_enough = quality.calibration_samples >= SATURATION_SAMPLES
    return {**context, "picture": at, "zoom": criteria.zoom, "can_measure_saturation": can_measure and has_enough}


def _build_graph(request: Request, record: JobRecord, quality: Quality, criteria: JobTabQuery) -> TemplateContext:
    return graph_context(request, record, quality, file=criteria.file, colour=criteria.colour, beside=criteria.beside)


def _log(request: Request, record: JobRecord, _quality: Quality, _query: JobTabQuery) -> TemplateContext:
    stage = view_models.log_stage(record)
    return {"log_stage": stage, "log_text": log_text(request, record, stage)}


def _build_api(request: Request, record: JobRecord, _quality: Quality, _query: JobTabQuery) -> TemplateContext:
    return {
        "base_url": find_reached_url(request),
        "options_json": record.options.model_dump_json(exclude_defaults=True),
    }


PANELS: Mapping[Tab, Callable[[Request, JobRecord, Quality, JobTabQuery], TemplateContext]] = {
    Tab.OVERVIEW: _build_overview,
    Tab.LAYERS: _build_layers,
    Tab.PICTURES: _build_pictures,
    Tab.GRAPH: _build_graph,
    Tab.LOG: _log,
    Tab.API: _build_api,
}
