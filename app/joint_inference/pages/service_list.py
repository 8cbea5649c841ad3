"""The list of services: filter, page through, watch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.joint_inference.access import joint_of
from app.joint_inference.model.resource import Service, Specification
from app.joint_inference.pages import view_models
from app.kit.web.auth import user_of
from app.kit.web.http import query
from app.kit.web.list_page import ListQuery
from app.kit.web.live_fragment import fragment, version_of
from app.kit.web.sse import changes_of
from app.kit.web.templates import TemplateContext, render

PAGE_SERVICES = 50
CHANNEL = "joint"
"""Of the changes of all services."""
STATES = ("Pending", "Running", "Failed")


class ServiceListQuery(ListQuery):
    PAGE: ClassVar[str] = "/ui/services"
    state: Literal["Pending", "Running", "Failed"] | None = None


@dataclass(frozen=True)
class ServiceRow:
    service: Service
    url: str
    condition: view_models.ConditionView
    specification: Specification
    figures: view_models.ServiceFigures | None


def services(request: Request) -> Response:
    return render(
        request,
        "joint_inference/services.html",
        area="services",
        states=STATES,
        note=request.query_params.get("note", ""),
        **_build_context(request),
    )


def rows(request: Request) -> Response:
    """The table again. 204 when it is what the page shows already."""
    return fragment(request, "joint_inference/_services_live.html", _build_context(request))


def url_of(namespace: str, name: str, further: str = "") -> str:
    return f"/ui/services/{quote(namespace, safe='')}/{quote(name, safe='')}{further}"


def _build_context(request: Request) -> TemplateContext:
    filters = query(request, ServiceListQuery)
    page, older = joint_of(request).services.page(
        user_of(request), text=filters.q or "", state=filters.state or "", cursor=filters.cursor, limit=PAGE_SERVICES
    )
    return {
        "filters": filters,
        "rows": [_build_row(service) for service in page],
        "older": older,
        "seen": version_of([(service.uid, service.version) for service in page]),
    }


def _build_row(service: Service) -> ServiceRow:
    return ServiceRow(
        service,
        url_of(service.namespace, service.name),
        view_models.condition_of(service),
        service.specification,
        view_models.figures_of(service.reported),
    )


ROUTES = [
    Route("/ui/services", services),
    Route("/ui/services/rows", rows),
    Route("/ui/services/events", changes_of(CHANNEL)),
]
