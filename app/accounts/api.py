"""The JSON API of accounts: endpoints parse, call one use case, render. OPERATIONS is its table of routes."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from app.accounts import schemas
from app.accounts.access import accounts_of, token_of
from app.accounts.model import ALL_SCOPES, Role, Token
from app.kit.web.auth import caller_of, user_of
from app.kit.web.http import json_answer
from app.kit.web.operations import Operations

NO_STORE = {"Cache-Control": "no-store"}
_ROLES = ", ".join(Role)
OPERATIONS = Operations(
    {
        "token_id": {"type": "string", "pattern": "^[0-9a-f]{12}$"},
        "name": {"type": "string", "pattern": schemas.NAME_PATTERN},
    }
)


def me_of(request: Request) -> schemas.MeAnswer:
    """What accounts know of the caller; homes answer GET /api/v2/me with this and where the data is."""
    user, token = accounts_of(request).users.get(user_of(request)), token_of(request)
    return schemas.MeAnswer(
        user_id=user.name,
        role=user.role,
        scopes=sorted(token.scopes if token else ALL_SCOPES),
        token_id=token.token_id if token else None,
    )


@OPERATIONS.get("/api/v2/me/tokens", "List my tokens", schemas.TokensAnswer)
def list_my_tokens(request: Request) -> Response:
    return _answer_tokens(request, user_of(request))


@OPERATIONS.post("/api/v2/me/tokens", "Create a token for myself; it is shown only once", {201: schemas.IssuedToken})
def issue_my_token(request: Request, body: schemas.NewToken) -> Response:
    """It may do no more, and lives no longer, than the token that asks for it."""
    return _issue(request, user_of(request), body, within=token_of(request))


@OPERATIONS.delete(
    "/api/v2/me/tokens/{token_id}",
    "Revoke one of my tokens; 200 lists the tokens that it had created, 204: it had created none",
    {200: schemas.RevocationAnswer, 204: None},
)
def revoke_my_token(request: Request, token_id: str, params: schemas.RevocationQuery) -> Response:
    return _revoke(request, user_of(request), token_id, params)


@OPERATIONS.get("/api/v2/users", "List users by name (administrators)", schemas.UsersAnswer, more_errors=(404,))
def list_users(request: Request, params: schemas.UserQuery) -> Response:
    users = accounts_of(request).users.page(text=params.q, after=params.after, limit=params.limit)
    answers = [schemas.user_answer(user, last_used_at) for user, last_used_at in users]
    return json_answer(
        schemas.UsersAnswer(users=answers, next_after=answers[-1].name if len(answers) == params.limit else None)
    )


@OPERATIONS.post(
    "/api/v2/users",
    f"Create a user; roles: {_ROLES}; the one-time SFTP password is shown only once (administrators)",
    {201: schemas.CreatedUser},
    more_errors=(404, 409),
)
def create_user(request: Request, body: schemas.NewUser) -> Response:
    user, password = accounts_of(request).users.create(
        body.name,
        body.role,
        by=user_of(request),
        quota_bytes=body.quota_bytes,
        quota_files=body.quota_files,
        is_reuse=body.reuse,
    )
    answer = schemas.CreatedUser(**schemas.user_answer(user, None).model_dump(), sftp_password=password)
    return json_answer(answer, 201, {"Location": f"/api/v2/users/{user.name}", **NO_STORE})


@OPERATIONS.get(
    "/api/v2/users/{name}",
    "Get a user (administrators)",
    schemas.UserAnswer,
    version_fields=("role", "is_enabled", "created_at", "quota_bytes", "quota_files", "groups"),
)
def get_user(request: Request, name: str) -> Response:
    return _read_user(request, name)


@OPERATIONS.patch(
    "/api/v2/users/{name}",
    "Change the role or quota of a user, disable or enable a user (administrators)",
    schemas.UserAnswer,
    more_errors=(409,),
)
def change_user(request: Request, name: str, body: schemas.UserChange) -> Response:
    fields = {field: getattr(body, field) for field in body.model_fields_set}
    accounts_of(request).users.change(name, by=user_of(request), **fields)
    return _read_user(request, name)


@OPERATIONS.delete("/api/v2/users/{name}", "Delete a user (administrators)", more_errors=(409,))
def delete_user(request: Request, name: str, params: schemas.Deletion) -> None:
    accounts_of(request).users.delete(name, by=user_of(request), is_cancelling=params.cancel)


@OPERATIONS.get("/api/v2/users/{name}/tokens", "List the tokens of a user (administrators)", schemas.TokensAnswer)
def list_tokens(request: Request, name: str) -> Response:
    return _answer_tokens(request, accounts_of(request).users.get(name).name)


@OPERATIONS.post(
    "/api/v2/users/{name}/tokens",
    "Create a token for a user; it is shown only once (administrators)",
    {201: schemas.IssuedToken},
)
def issue_token(request: Request, name: str, body: schemas.NewToken) -> Response:
    return _issue(request, name, body)


@OPERATIONS.delete(
    "/api/v2/users/{name}/tokens/{token_id}",
    "Revoke a token of a user (administrators); 200 lists the tokens that it had created, 204: it had created none",
    {200: schemas.RevocationAnswer, 204: None},
)
def revoke_token(request: Request, name: str, token_id: str, params: schemas.RevocationQuery) -> Response:
    return _revoke(request, name, token_id, params)


@OPERATIONS.get(
    "/api/v2/audit", "List changes of accounts, newest first (administrators)", schemas.AuditAnswer, more_errors=(404,)
)
def get_audit(request: Request, params: schemas.AuditQuery) -> Response:
    entries = accounts_of(request).audit_log.entries(**params.model_dump())
    return json_answer(schemas.AuditAnswer(entries=[schemas.entry_answer(entry) for entry in entries]))


def _issue(request: Request, name: str, body: schemas.NewToken, within: Token | None = None) -> Response:
    token, text = accounts_of(request).tokens.issue(
        name,
        by=caller_of(request).user,
        label=body.label,
        scopes=body.scopes,
        ttl_s=body.ttl_s,
        within=within,
        made_by=caller_of(request).token_id,
    )
    return json_answer(schemas.describe_issued_token(token, text), 201, NO_STORE)


def _answer_tokens(request: Request, name: str) -> Response:
    tokens = accounts_of(request).tokens
    counts = tokens.valid_made(name, only_own=not caller_of(request).is_admin)
    answers = [schemas.token_answer(token, counts.get(token.token_id, 0)) for token in tokens.of(name)]
    return json_answer(schemas.TokensAnswer(tokens=answers))


def _revoke(request: Request, name: str, token_id: str, params: schemas.RevocationQuery) -> Response:
    """Says what the token had made, if any of that was valid."""
    caller = caller_of(request)
    revocation = accounts_of(request).tokens.revoke(
        name, token_id, by=caller.user, with_made=params.with_made, only_own=not caller.is_admin
    )
    if revocation.also_revoked or revocation.still_valid:
        return json_answer(schemas.revocation_answer(revocation))
    return Response(status_code=204)


def _read_user(request: Request, name: str) -> Response:
    accounts = accounts_of(request)
    user = accounts.users.get(name)
    used = [token.last_used_at for token in accounts.tokens.of(name) if token.last_used_at]
    return json_answer(schemas.user_answer(user, max(used, default=None)))
