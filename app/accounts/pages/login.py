"""The page where one signs in with a token, and signing out. The token is only ever in the body of the form."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.accounts.access import accounts_of, authenticator_of
from app.accounts.errors import TokenRefused, TooManyLogins
from app.accounts.schemas import SignIn
from app.kit.errors import ModelmillError
from app.kit.web.auth import LOGIN, LOGOUT
from app.kit.web.common_pages import HOME, see_other
from app.kit.web.http import retry_after
from app.kit.web.page_actions import with_form
from app.kit.web.security import is_https, session_cookie
from app.kit.web.templates import render

MAX_NEXT = 2000


def login_page(request: Request) -> Response:
    """Leads on if the user is signed in already."""
    target = request.query_params.get("next", "")[:MAX_NEXT]
    try:
        authenticator_of(request).caller(request)
    except ModelmillError:
        return _render_page(request, target)
    return see_other(target or HOME)


@with_form(SignIn)
def sign_in(request: Request, fields: SignIn) -> Response:
    try:
        session = authenticator_of(request).sign_in(request, fields.token.strip())
    except (TokenRefused, TooManyLogins) as error:
        return _render_page(request, fields.next, error)
    response = see_other(fields.next or HOME)
    response.set_cookie(
        session_cookie(request),
        session,
        max_age=accounts_of(request).tokens.session_s,
        path="/",
        secure=is_https(request),
        httponly=True,
        samesite="lax",
    )
    response.headers["Cache-Control"] = "no-store"
    return response


def sign_out(request: Request) -> Response:
    authenticator_of(request).sign_out(request)
    response = see_other(LOGIN)
    response.delete_cookie(session_cookie(request), path="/", secure=is_https(request), httponly=True, samesite="lax")
    response.headers["Clear-Site-Data"] = '"cache"'
    return response


def _render_page(request: Request, target: str, error: ModelmillError | None = None) -> Response:
    wait_s = error.detail["retry_after_s"] if isinstance(error, TooManyLogins) else 0
    response = render(
        request,
        "accounts/login.html",
        error.status if error else 200,
        target=target,
        wait_s=wait_s,
        is_refused=isinstance(error, TokenRefused),
        has_admin=accounts_of(request).users.has_admin(),
    )
    response.headers.update(retry_after(error) if error else {})
    return response


ROUTES = [
    Route(LOGIN, login_page),
    Route(LOGIN, sign_in, methods=["POST"]),
    Route(LOGOUT, sign_out, methods=["POST"]),
]
