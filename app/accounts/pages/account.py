"""The page of one's own account: who one is, and one's tokens."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.accounts.access import accounts_of, token_of
from app.accounts.errors import BadToken
from app.accounts.model import Token, scopes_of
from app.accounts.schemas import RevocationForm, TokenForm
from app.kit.web.auth import caller_of, user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import form
from app.kit.web.idempotency import form_once
from app.kit.web.page_actions import with_form
from app.kit.web.public_address import find_reached_url
from app.kit.web.templates import render

PAGE = "/ui/account"


def account(request: Request, problem: str = "") -> Response:
    accounts, caller = accounts_of(request), caller_of(request)
    user, token = accounts.users.get(caller.user), token_of(request)
    return render(
        request,
        "accounts/account.html",
        422 if problem else 200,
        area="account",
        user=user,
        tokens=accounts.tokens.of(user.name),
        valid_made=accounts.tokens.valid_made(user.name, only_own=not caller.is_admin),
        left=read_left(request),
        scopes=token.scopes if token else scopes_of(user.role),
        mine=caller.token_id,
        problem=problem,
        note=request.query_params.get("note", ""),
    )


@with_form(TokenForm)
def issue(request: Request, fields: TokenForm) -> Response:
    """The answer to the form is the one page that ever shows the token."""
    user, maker, tokens = user_of(request), token_of(request), accounts_of(request).tokens
    try:
        token, text = tokens.issue(
            user, by=user, label=fields.label, scopes=fields.scopes, ttl_s=fields.ttl_s, within=maker
        )
    except BadToken as error:
        return account(request, f"{error.message} {error.hint}")
    return show_token(request, token, text, area="account", back=PAGE)


def show_token(request: Request, token: Token, text: str, *, area: str, back: str) -> Response:
    """Renders the one page that ever shows a token.

    Args:
        request: whose address the examples name.
        token: the issued token.
        text: its secret text.
        area: of the menu; "account" for one's own token.
        back: the page to return to.
    """
    url, is_own = find_reached_url(request), area == "account"
    return render(request, "accounts/token.html", area=area, token=token, text=text, back=back, is_own=is_own, url=url)


async def revoke(request: Request) -> Response:
    return await revoked(request, user_of(request), PAGE)


async def revoked(request: Request, name: str, page: str) -> Response:
    """Revoke the token of this user that the path names, and go back to the page, which says what it had made."""
    with_made = (await form(request, RevocationForm)).with_made == "yes"
    revocation = await run_in_threadpool(
        accounts_of(request).tokens.revoke,
        name,
        request.path_params["token_id"],
        by=user_of(request),
        with_made=with_made,
        only_own=not caller_of(request).is_admin,
    )
    left = f"&left={len(revocation.still_valid)}" if revocation.still_valid else ""
    return see_other(f"{page}?note=revoked{left}")


def read_left(request: Request) -> int:
    """How many tokens a revoked one had made that are valid still, as the address of the page says after it."""
    left = request.query_params.get("left", "")
    return int(left) if left.isascii() and left.isdigit() and len(left) < 7 else 0


ROUTES = [
    Route(PAGE, account),
    Route(f"{PAGE}/tokens", form_once(issue), methods=["POST"]),
    Route(PAGE + "/tokens/{token_id}/revoke", revoke, methods=["POST"]),
]
