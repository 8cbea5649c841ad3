"""What every endpoint of training, JSON or page, needs of a request."""

from __future__ import annotations

from starlette.requests import Request

from app.training.service import Training


def training_of(request: Request) -> Training:
    training = request.app.state.training
    assert isinstance(training, Training)
    return training
