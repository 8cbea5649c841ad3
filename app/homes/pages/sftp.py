"""What is done with an SFTP account: by its user on the page Data (a one-time password, an own one, keys), and by an
administrator, who resets the password."""

from __future__ import annotations

from collections.abc import Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.accounts.access import accounts_of
from app.accounts.pages import users as user_pages
from app.homes import schemas
from app.homes.access import described_home_of, homes_of
from app.homes.pages.overview import overview
from app.homes.pages.urls import DATA
from app.homes.service import SftpAccounts
from app.kit.errors import BadInput, ModelmillError
from app.kit.web.auth import caller_of, user_of
from app.kit.web.common_pages import see_other
from app.kit.web.page_actions import with_form
from app.kit.web.templates import render

PASSWORD = f"{DATA}/sftp-password"
KEYS = f"{DATA}/ssh-keys"
USER_PASSWORD = user_pages.PAGE + "/{name}/sftp-password"


class PasswordsDiffer(BadInput, code="PASSWORDS_DIFFER"): ...


def confirm_reset(request: Request) -> Response:
    """Says what will happen before it does."""
    return render(request, "homes/password_reset.html", area="data")


def reset(request: Request) -> Response:
    """The answer to the form is the one page that ever shows the password."""
    caller = caller_of(request)
    user = caller.user
    try:
        password = homes_of(request).sftp.reset_password(user, by=user, token_id=caller.token_id)
    except ModelmillError as error:
        return overview(request, error, "password")
    return render(
        request,
        "homes/password.html",
        area="data",
        password=password,
        endpoint=described_home_of(request).sftp().endpoint,
    )


@with_form(schemas.PasswordForm)
def set_own(request: Request, fields: schemas.PasswordForm) -> Response:
    caller = caller_of(request)

    def change(accounts: SftpAccounts) -> None:
        if fields.password != fields.again:
            raise PasswordsDiffer("The two passwords differ.", hint="Type the same one twice.")
        accounts.set_password(caller.user, fields.password, by=caller.user, token_id=caller.token_id)

    return _apply_change(request, change, "password")


@with_form(schemas.KeyForm)
def add_key(request: Request, fields: schemas.KeyForm) -> Response:
    """One that is there already stays, and ends with the token that asks now."""
    caller = caller_of(request)
    fresh = [line for line in fields.key.strip().splitlines() if line.strip()] or [""]

    def change(accounts: SftpAccounts) -> None:
        accounts.add_keys(caller.user, fresh, by=caller.user, token_id=caller.token_id)

    return _apply_change(request, change, "keys")


@with_form(schemas.KeyForm)
def remove_key(request: Request, fields: schemas.KeyForm) -> Response:
    user = user_of(request)

    def change(accounts: SftpAccounts) -> None:
        accounts.remove_key(user, fields.key, by=user)

    return _apply_change(request, change, "keys")


def _apply_change(request: Request, change: Callable[[SftpAccounts], None], part: str) -> Response:
    try:
        change(homes_of(request).sftp)
    except ModelmillError as error:
        return overview(request, error, part)
    return see_other(f"{DATA}?note={part}#sftp")


def confirm_reset_of_user(request: Request) -> Response:
    """Says what will happen before it does."""
    name = accounts_of(request).users.get(request.path_params["name"]).name
    return render(request, "accounts/sftp_reset.html", area="users", name=name)


def reset_of_user(request: Request) -> Response:
    """The answer to the form is the one page that ever shows the password."""
    caller = caller_of(request)
    name = accounts_of(request).users.get(request.path_params["name"]).name
    try:
        password = homes_of(request).sftp.reset_password(name, by=caller.user, token_id=caller.token_id)
    except ModelmillError as error:
        return user_pages.user_page(request, error)
    return user_pages.sftp_password_page(request, name, password, f"{user_pages.PAGE}/{name}")


ROUTES = [
    Route(PASSWORD, confirm_reset),
    Route(PASSWORD, reset, methods=["POST"]),
    Route(f"{PASSWORD}/own", set_own, methods=["POST"]),
    Route(KEYS, add_key, methods=["POST"]),
    Route(f"{KEYS}/remove", remove_key, methods=["POST"]),
    Route(USER_PASSWORD, confirm_reset_of_user),
    Route(USER_PASSWORD, reset_of_user, methods=["POST"]),
]
