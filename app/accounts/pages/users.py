"""The administrators' pages: the list of users with the audit's tail, and one user with what can be done to them."""

from __future__ import annotations

from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.accounts.access import accounts_of
from app.accounts.errors import BadGroupName, BadToken, BadUserName, LastAdmin, NameWasUsed, UserExists
from app.accounts.model import Role, UserFields, scopes_of
from app.accounts.pages.account import read_left, revoked, show_token
from app.accounts.schemas import ChangeForm, TokenForm, UserForm
from app.kit.access import names_in
from app.kit.errors import ModelmillError
from app.kit.web.auth import caller_of, user_of
from app.kit.web.common_pages import see_other
from app.kit.web.idempotency import form_once
from app.kit.web.page_actions import with_form
from app.kit.web.templates import render

PAGE = "/ui/admin/users"
PAGE_USERS = 50
TAIL = 20


def users(request: Request, error: ModelmillError | None = None, name: str = "") -> Response:
    """error: why the user of this name was not created."""
    accounts = accounts_of(request)
    text, after = request.query_params.get("q", "").strip()[:64], request.query_params.get("after", "")[:64]
    page = accounts.users.page(text=text, after=after, limit=PAGE_USERS)
    more = urlencode({"q": text, "after": page[-1][0].name}) if len(page) == PAGE_USERS else ""
    return render(
        request,
        "accounts/users.html",
        area="users",
        users=page,
        text=text,
        after=after,
        more=more,
        entries=accounts.audit_log.entries(limit=TAIL),
        error=error,
        name=name,
        roles=list(Role),
        note=request.query_params.get("note", ""),
    )


@with_form(UserForm)
def create(request: Request, fields: UserForm) -> Response:
    """The answer to the form is the one page that ever shows the SFTP password."""
    name = fields.name.strip()
    try:
        _, password = accounts_of(request).users.create(name, fields.role, by=user_of(request))
    except (BadUserName, UserExists, NameWasUsed) as error:
        return users(request, error, name)
    back = f"{PAGE}/{name}?note=created"
    return sftp_password_page(request, name, password, back) if password else see_other(back)


def sftp_password_page(request: Request, name: str, password: str, back: str) -> Response:
    """Another user's SFTP password, shown this once.

    Args:
        name: of the user.
        password: a one-time password.
        back: the page to go on to, a path.
    """
    return render(request, "accounts/sftp_password.html", area="users", name=name, password=password, back=back)


def user_page(request: Request, error: ModelmillError | None = None) -> Response:
    accounts, name = accounts_of(request), request.path_params["name"]
    user = accounts.users.get(name)
    return render(
        request,
        "accounts/user.html",
        area="users",
        user=user,
        tokens=accounts.tokens.of(name),
        valid_made=accounts.tokens.valid_made(name),
        left=read_left(request),
        scopes=scopes_of(user.role),
        error=error,
        entries=accounts.audit_log.entries(limit=TAIL, subject=f"user:{name}"),
        is_me=name == user_of(request),
        note=request.query_params.get("note", ""),
    )


@with_form(ChangeForm)
def change(request: Request, sent: ChangeForm) -> Response:
    name = request.path_params["name"]
    changes: UserFields = {"role": sent.role} if sent.role else {}
    if sent.enabled:
        changes["is_enabled"] = sent.enabled == "yes"
    if sent.groups is not None:
        changes["groups"] = names_in(sent.groups)
    try:
        accounts_of(request).users.change(name, by=user_of(request), **changes)
    except (LastAdmin, BadGroupName) as error:
        return user_page(request, error)
    return see_other(f"{PAGE}/{name}?note=changed")


@with_form(TokenForm)
def issue(request: Request, fields: TokenForm) -> Response:
    """The answer to the form is the one page that ever shows the token."""
    name = request.path_params["name"]
    try:
        token, text = accounts_of(request).tokens.issue(
            name,
            by=user_of(request),
            label=fields.label,
            scopes=fields.scopes,
            ttl_s=fields.ttl_s,
            made_by=caller_of(request).token_id,
        )
    except BadToken as error:
        return user_page(request, error)
    return show_token(request, token, text, area="users", back=f"{PAGE}/{name}")


async def revoke(request: Request) -> Response:
    name = request.path_params["name"]
    return await revoked(request, name, f"{PAGE}/{name}")


def confirm_deletion(request: Request, error: ModelmillError | None = None) -> Response:
    """Says what will happen before it does."""
    accounts, name = accounts_of(request), request.path_params["name"]
    user = accounts.users.get(name)
    return render(
        request,
        "accounts/user_delete.html",
        area="users",
        user=user,
        error=error,
        under_way=sum(accounts.users.busy(name).values()),
        tokens=accounts.tokens.of(name),
    )


def delete(request: Request) -> Response:
    """The page before has said that what is in progress will be cancelled."""
    try:
        accounts_of(request).users.delete(request.path_params["name"], by=user_of(request), is_cancelling=True)
    except LastAdmin as error:
        return confirm_deletion(request, error)
    return see_other(f"{PAGE}?note=deleted")


ROUTES = [
    Route(PAGE, users),
    Route(PAGE, form_once(create), methods=["POST"]),
    Route(PAGE + "/{name}", user_page),
    Route(PAGE + "/{name}/change", change, methods=["POST"]),
    Route(PAGE + "/{name}/tokens", form_once(issue), methods=["POST"]),
    Route(PAGE + "/{name}/tokens/{token_id}/revoke", revoke, methods=["POST"]),
    Route(PAGE + "/{name}/delete", confirm_deletion),
    Route(PAGE + "/{name}/delete", delete, methods=["POST"]),
]
