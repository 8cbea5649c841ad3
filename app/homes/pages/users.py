"""What an administrator does with the SFTP account of another user: reset its password."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.accounts.access import accounts_of
from app.accounts.pages import users as user_pages
from app.homes.access import homes_of
from app.kit.errors import ModelmillError
from app.kit.web.auth import caller_of
from app.kit.web.templates import render

PASSWORD = user_pages.PAGE + "/{name}/sftp-password"


def confirm_reset(request: Request) -> Response:
    """Says what will happen before it does."""
    name = accounts_of(request).users.get(request.path_params["name"]).name
    return render(request, "accounts/sftp_reset.html", area="users", name=name)


def reset(request: Request) -> Response:
    """The answer to the form is the one page that ever shows the password."""
    caller = caller_of(request)
    name = accounts_of(request).users.get(request.path_params["name"]).name
    try:
        password = homes_of(request).door.reset_password(name, by=caller.user, token_id=caller.token_id)
    except ModelmillError as error:
        return user_pages.user(request, error)
    return user_pages.sftp_password_page(request, name, password, f"{user_pages.PAGE}/{name}")


ROUTES = [
    Route(PASSWORD, confirm_reset),
    Route(PASSWORD, reset, methods=["POST"]),
]
