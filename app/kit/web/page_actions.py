"""Decorators of what a page's form does: the action is given the form, and runs in a thread. And whether it may run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from app.kit.errors import ModelmillError
from app.kit.web.forms import read_fields
from app.kit.web.http import Model, form

Sent = TypeVar("Sent")
Guard = Callable[[Request], object]
"""Refuses callers, before anything that they sent is read."""
Action = Callable[[Request, Sent], Response]
Endpoint = Callable[[Request], Awaitable[Response]]


def with_form(model: type[Model], *, guard: Guard | None = None) -> Callable[[Action[Model]], Endpoint]:
    """The decorator of a page's action: it is given the form as this model, and runs in a thread."""
    return lambda action: _make_endpoint(action, lambda request: form(request, model), guard)


def with_fields(
    most_bytes: int, what: str, *, guard: Guard | None = None
) -> Callable[[Action[dict[str, str]]], Endpoint]:
    """As `with_form`, for the fields that `sent_fields` returns."""
    return lambda action: _make_endpoint(
        action, lambda request: read_fields(request, most_bytes=most_bytes, what=what), guard
    )


Refusal = TypeVar("Refusal", bound=ModelmillError)


def refusal_of(kind: type[Refusal], require: Callable[..., object], *arguments: object) -> Refusal | None:
    """Returns the error of this kind with which `require` forbids something, for the page that asks first."""
    try:
        require(*arguments)
    except kind as error:
        return error
    return None


def _make_endpoint(action: Action[Sent], read: Callable[[Request], Awaitable[Sent]], guard: Guard | None) -> Endpoint:
    @wraps(action)
    async def endpoint(request: Request) -> Response:
        if guard is not None:
            await run_in_threadpool(guard, request)
        return await run_in_threadpool(action, request, await read(request))

    return endpoint
