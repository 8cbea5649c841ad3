"""The one place where a request's user is decided. While there are no accounts, everybody is the local user."""

from __future__ import annotations

from starlette.requests import Request


def user_of(request: Request) -> str:
    return str(request.app.state.settings.local_user)
