"""Fragments of a page that keep themselves current: they ask again when a stream says so, and now and then.

Each fragment carries the version of what it shows (`seen`), and sends it along when it asks: nothing is rendered, sent
or swapped while that is current still.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.kit.web.templates import render

VERSION_DIGITS = 12


def version_of(*facts: object) -> str:
    """Names what is shown.

    Args:
        facts: everything on which the look depends; each with a `repr` that is equal for equal facts.
    """
    return sha256(repr(facts).encode()).hexdigest()[:VERSION_DIGITS]


def is_current(request: Request, version: str) -> bool:
    """Does the page that asks show this version already?"""
    return request.query_params.get("seen", "") == version


def unchanged() -> Response:
    """204: the page keeps what it shows."""
    return Response(status_code=204)


def fragment(request: Request, template: str, context: dict[str, Any]) -> Response:
    """The fragment anew, or 204 while the page shows it already.

    Args:
        context: of the template; its `seen` is the version.
    """
    return unchanged() if is_current(request, context["seen"]) else render(request, template, **context)


def reload_page() -> Response:
    """What the fragment shows is gone: the page is loaded anew, and says what became of it."""
    return Response(status_code=200, headers={"HX-Refresh": "true"})
