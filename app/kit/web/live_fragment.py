"""Fragments of a page that update themselves: they are requested again when a stream signals a change, and
periodically.

Each fragment contains the version of its content (`seen`), and sends it with its request: nothing is rendered, sent or
swapped while that is current.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from hashlib import sha256

from starlette.requests import Request
from starlette.responses import Response

from app.kit.errors import NotFound
from app.kit.web.templates import TemplateContext, render

VERSION_DIGITS = 12


def version_of(*facts: object) -> str:
    """Returns the version of the content.

    Args:
        facts: everything that the rendering depends on; each with a `repr` that is equal for equal values.
    """
    return sha256(repr(facts).encode()).hexdigest()[:VERSION_DIGITS]


def is_current(request: Request, version: str) -> bool:
    """Whether the requesting page already shows this version."""
    return request.query_params.get("seen", "") == version


def unchanged() -> Response:
    """204: the page keeps its content."""
    return Response(status_code=204)


def fragment(request: Request, template: str, context: TemplateContext) -> Response:
    """Returns the fragment, or 204 if the page already shows it.

    Args:
        context: the template's context; its `seen` is the version.
    """
    return unchanged() if is_current(request, context["seen"]) else render(request, template, **context)


def reloads_when_gone(live: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """The decorator of an endpoint that sends the fragment of an object: if that is not found, the page is reloaded."""

    @wraps(live)
    def endpoint(request: Request) -> Response:
        try:
            return live(request)
        except NotFound:
            return reload_page()

    return endpoint


def reload_page() -> Response:
    """The content no longer exists: the page is reloaded and says why."""
    return Response(status_code=200, headers={"HX-Refresh": "true"})
