"""What every endpoint of conversion, JSON or page, needs of a request."""

from __future__ import annotations

from starlette.requests import Request

from app.conversion.service import Conversion


def conversion_of(request: Request) -> Conversion:
    conversion = request.app.state.conversion
    assert isinstance(conversion, Conversion)
    return conversion
