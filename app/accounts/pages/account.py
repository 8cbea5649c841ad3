"""The page of one's own account: who one is, and one's tokens."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.accounts.access import accounts_of, token_of
from app.accounts.errors import BadToken
from app.accounts.model import scopes_of
from app.accounts.schemas import TokenForm
from app.kit.web.auth import caller_of, user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import form
from app.kit.web.public_address import reached_url
from app.kit.web.templates import render

PAGE = "/ui/account"


def account(request: Request, problem: str = "") -> Response:
    accounts, caller = accounts_of(request), caller_of(request)
    user, mine = accounts.users.get(caller.user), token_of(request)
    return render(
        request,
        "accounts/account.html",
        422 if problem else 200,
        area="account",
        user=user,
        tokens=accounts.tokens.of(user.name),
        scopes=mine.scopes if mine else scopes_of(user.role),
        mine=caller.token_id,
        problem=problem,
        note=request.query_params.get("note", ""),
    )


async def issue(request: Request) -> Response:
    """The answer to the form is the one page that ever shows the token."""
    asked, user = await form(request, TokenForm), user_of(request)
    mine = await run_in_threadpool(token_of, request)
    try:
        token, text = await run_in_threadpool(
            accounts_of(request).tokens.issue,
            user,
            by=user,
            label=asked.label,
            scopes=asked.scopes,
            ttl_s=asked.ttl_s,
            within=mine,
        )
    except BadToken as error:
        return await run_in_threadpool(account, request, f"{error.message} {error.hint}")
    return render(
        request,
        "accounts/token.html",
        area="account",
        token=token,
        text=text,
        back=PAGE,
        is_own=True,
        url=reached_url(request),
    )


def revoke(request: Request) -> Response:
    user = user_of(request)
    accounts_of(request).tokens.revoke(user, request.path_params["token_id"], by=user)
    return see_other(f"{PAGE}?note=revoked")


ROUTES = [
    Route(PAGE, account),
    Route(f"{PAGE}/tokens", issue, methods=["POST"]),
    Route(PAGE + "/tokens/{token_id}/revoke", revoke, methods=["POST"]),
]
