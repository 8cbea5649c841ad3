"""What every endpoint of models needs of a request."""

from __future__ import annotations

from starlette.requests import Request

from app.model_registry.service import Models


def models_of(request: Request) -> Models:
    found = request.app.state.models
    assert isinstance(found, Models)
    return found
