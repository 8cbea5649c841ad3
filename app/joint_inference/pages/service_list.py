"""The list of services: filter, page through, watch."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.joint_inference.access import joint_of
from app.joint_inference.model.resource import Service, Specification
from app.joint_inference.pages import view_models
from app.kit.web.auth import user_of
from app.kit.web.http import FilterForm, query
from app.kit.web.templates import render

PAGE_SERVICES = 50
STATES = ("Pending", "Running", "Failed")


class ListQuery(FilterForm):
    """seen: what the page shows already, for the fragment that keeps it current."""

    q: Annotated[str, Field(max_length=200)] | None = None
    state: Literal["Pending", "Running", "Failed"] | None = None
    cursor: Annotated[str, Field(max_length=120)] | None = None
    seen: Annotated[str, Field(max_length=64)] = ""

    @property
    def is_filtered(self) -> bool:
        return bool(self.q or self.state)

    def url(self, page: str = "/ui/services", **further: str | None) -> str:
        kept = {"q": self.q, "state": self.state, **further}
        return f"{page}?" + urlencode({name: value for name, value in kept.items() if value})


@dataclass(frozen=True)
class Row:
    service: Service
    url: str
    condition: view_models.Condition
    wanted: Specification
    figures: view_models.Figures | None


def services(request: Request) -> Response:
    asked = query(request, ListQuery)
    return render(
        request,
        "joint_inference/services.html",
        area="services",
        states=STATES,
        note=request.query_params.get("note", ""),
        **_rows(request, asked),
    )


def rows(request: Request) -> Response:
    """The table anew. 204 when it is what the page shows already."""
    asked = query(request, ListQuery)
    context = _rows(request, asked)
    if asked.seen == context["seen"]:
        return Response(status_code=204)
    return render(request, "joint_inference/_services_live.html", **context)


def url_of(namespace: str, name: str, further: str = "") -> str:
    return f"/ui/services/{quote(namespace, safe='')}/{quote(name, safe='')}{further}"


def _rows(request: Request, asked: ListQuery) -> dict[str, Any]:
    found, older = joint_of(request).services.page(
        user_of(request), text=asked.q or "", state=asked.state or "", cursor=asked.cursor, limit=PAGE_SERVICES
    )
    versions = "\n".join(f"{service.uid} {service.version}" for service in found)
    return {
        "asked": asked,
        "rows": [_row(service) for service in found],
        "older": older,
        "seen": sha256(versions.encode()).hexdigest()[:12],
    }


def _row(service: Service) -> Row:
    return Row(
        service,
        url_of(service.namespace, service.name),
        view_models.condition_of(service),
        service.specification,
        view_models.figures_of(service.reported),
    )


ROUTES = [
    Route("/ui/services", services),
    Route("/ui/services/rows", rows),
]
