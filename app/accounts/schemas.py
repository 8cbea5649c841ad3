"""What the JSON API of accounts takes and gives, and what the forms of its pages send."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, field_validator

from app.accounts.model import MAX_LABEL, MAX_QUOTA, AuditEntry, Revocation, Role, Scope, Token, User, scopes_up_to
from app.kit.text.json_values import JsonObject
from app.kit.web.http import answer_of
from app.kit.web.strict import TEXT, Strict

DAY_S = 86400
NAME_PATTERN = r"^[a-z][a-z0-9._-]{0,30}[a-z0-9]$"
Name = Annotated[str, Field(max_length=64)]
Label = Annotated[str, Field(max_length=MAX_LABEL, pattern=TEXT)]
Quota = Annotated[int, Field(ge=0, le=MAX_QUOTA)] | None
TtlS = Annotated[int, Field(ge=1, le=100 * 365 * DAY_S)] | None


class NewUser(Strict):
    name: Name
    role: Role = Role.USER
    quota_bytes: Quota = None
    """Quota of the data home in bytes; null: the default of the installation; 0: no limit."""
    quota_files: Quota = None
    """Largest number of files and folders; null: the default of the installation; 0: no limit."""
    reuse: bool = False
    """Whether the name of a deleted user is reused, with everything that is left of it."""


class UserChange(Strict):
    """Fields that are not given do not change."""

    role: Role = Role.USER
    is_enabled: bool = True
    quota_bytes: Quota = None
    quota_files: Quota = None
    groups: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=50)] = Field([])
    """Names that lists of who may use a node, a video or a stage can hold, there written as @group."""


class NewToken(Strict):
    label: Label = ""
    scopes: Annotated[list[Scope], Field(min_length=1, max_length=len(Scope))] | None = None
    """null: all permitted scopes. Every token has the scope read."""
    ttl_s: TtlS = None
    """Lifetime in seconds; null: as long as the requesting token, or until it is revoked."""


class UserQuery(Strict):
    q: Annotated[str, Field(max_length=64)] = ""
    """Part of the name."""
    limit: Annotated[int, Field(ge=1, le=200)] = 100
    after: Annotated[str, Field(max_length=64)] = ""
    """The last name of the previous page."""


class AuditQuery(Strict):
    limit: Annotated[int, Field(ge=1, le=500)] = 100
    before: Annotated[int, Field(ge=1, le=1 << 31)] | None = None
    """The last entry_id of the previous page."""
    subject: Annotated[str, Field(max_length=300)] | None = None
    actor: Annotated[str, Field(max_length=64)] | None = None


class Deletion(Strict):
    cancel: bool = False
    """Cancel running work first; otherwise running work is a reason to refuse."""


class RevocationQuery(Strict):
    with_made: bool = False
    """Also revoke the tokens that it created, and those that these created; tokens of other users only with the scope
    admin."""


class MeAnswer(BaseModel):
    user_id: str
    role: Role
    scopes: list[Scope]
    """What may be done with the token that was sent."""
    token_id: str | None
    """null for the local user of this machine."""


class UserAnswer(BaseModel):
    name: str
    role: Role
    is_enabled: bool
    created_at: str
    quota_bytes: int | None
    quota_files: int | None
    groups: list[str]
    last_used_at: str | None
    """When a token of theirs was last used, to the minute."""


class CreatedUser(UserAnswer):
    sftp_password: str | None
    """For one time, and shown this once; null: this installation has no SFTP."""


class UsersAnswer(BaseModel):
    users: list[UserAnswer]
    next_after: str | None


class TokenAnswer(BaseModel):
    token_id: str
    label: str
    scopes: list[Scope]
    created_at: str
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None
    made_by: str | None
    """token_id of the token with which it was issued; null: without one."""
    valid_made: int
    """How many of the tokens that it made, and of those that those made, are valid."""


class IssuedToken(TokenAnswer):
    token: str
    """Shown this once."""


class TokensAnswer(BaseModel):
    tokens: list[TokenAnswer]


class RevocationAnswer(BaseModel):
    token_id: str
    also_revoked: list[str]
    """Tokens that it had made, revoked with it."""
    still_valid: list[str]
    """Tokens that it had made and that are valid still: `with_made=true` would have revoked them, too."""


class EntryAnswer(BaseModel):
    entry_id: int
    at: str
    actor: str
    action: str
    subject: str
    detail: JsonObject


class AuditAnswer(BaseModel):
    entries: list[EntryAnswer]


class SignIn(BaseModel):
    token: Annotated[str, Field(max_length=500)]
    next: Annotated[str, Field(max_length=2000)] = ""


class UserForm(BaseModel):
    name: Annotated[str, Field(max_length=64)]
    role: Role = Role.USER


class ChangeForm(BaseModel):
    """One button of the user's page was pressed: one of these is given."""

    role: Role | None = None
    enabled: Literal["yes", "no"] | None = None
    groups: Annotated[str, Field(max_length=2000)] | None = None


class TokenForm(BaseModel):
    label: Label = ""
    days: Annotated[int, Field(ge=1, le=36500)] | None = None
    scope: Literal["read", "write", "admin"] | None = None
    """The most that the token may do."""

    @field_validator("days", mode="before")
    @classmethod
    def _empty_is_none(cls, days: Any) -> Any:
        return days or None

    @property
    def ttl_s(self) -> int | None:
        return self.days * DAY_S if self.days else None

    @property
    def scopes(self) -> list[Scope] | None:
        return scopes_up_to(self.scope) if self.scope else None


class RevocationForm(BaseModel):
    with_made: Literal["yes", ""] = ""


def user_answer(user: User, last_used_at: str | None) -> UserAnswer:
    return answer_of(UserAnswer, user, last_used_at=last_used_at)


def token_answer(token: Token, valid_made: int) -> TokenAnswer:
    return answer_of(TokenAnswer, token, scopes=sorted(token.scopes), valid_made=valid_made)


def describe_issued_token(token: Token, text: str) -> IssuedToken:
    return answer_of(IssuedToken, token, scopes=sorted(token.scopes), valid_made=0, token=text)


def revocation_answer(revocation: Revocation) -> RevocationAnswer:
    return answer_of(RevocationAnswer, revocation)


def entry_answer(entry: AuditEntry) -> EntryAnswer:
    return EntryAnswer(**vars(entry))
