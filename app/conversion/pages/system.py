"""The system page. Its fragment is reloaded when jobs change, and every five seconds, since workers do not announce
themselves."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.service.system import read_system
from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.templates import render
from app.settings import settings_of

EVERY_S = 5


def page(request: Request) -> Response:
    return _render(request, "conversion/system.html")


def fragment(request: Request) -> Response:
    return _render(request, "conversion/_system.html")


def _render(request: Request, template: str) -> Response:
    system = read_system(conversion_of(request), settings_of(request), user_of(request), now())
    return render(request, template, area="system", system=system, every_s=EVERY_S)


ROUTES = [Route("/ui/system", page), Route("/ui/system/state", fragment)]
