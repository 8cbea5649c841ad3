"""Users, roles, scopes, tokens and sessions, and when they are valid. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypedDict

from app.kit.clock import to_text
from app.kit.text.json_values import JsonObject

NAME = re.compile(r"[a-z][a-z0-9._-]{0,30}[a-z0-9]")
"""A user's name is also the name of a folder and of an SFTP account."""
RESERVED = frozenset({"root", "common", "users", "admin-api", "none", "system"})
MAX_LABEL = 100
MAX_QUOTA = 1 << 60


class Role(StrEnum):
    USER = "user"
    ADMIN = "admin"


class Scope(StrEnum):
    """The permissions of a token. Its user's role is an additional limit."""

    READ = "read"
    """See one's own objects."""
    WRITE = "write"
    """Submit, cancel, delete, upload."""
    ADMIN = "admin"
    """Manage users."""


ALL_SCOPES = frozenset(Scope)


@dataclass(frozen=True)
class User:
    """An account."""

    name: str
    role: Role
    is_enabled: bool
    created_at: str
    quota_bytes: int | None = None
    """Of the data home; None for the installation's default, 0 for no limit."""
    quota_files: int | None = None
    """How many files and folders the data home may have; None and 0 as above."""
    groups: tuple[str, ...] = ()
    """Sorted. Access rules can name them, see app.kit.access."""


class UserFields(TypedDict, total=False):
    """Fields of an account to change."""

    role: Role
    is_enabled: bool
    quota_bytes: int | None
    quota_files: int | None
    groups: Collection[str]


@dataclass(frozen=True)
class Token:
    """An API token as stored: a keyed hash instead of the secret."""

    token_id: str
    user_name: str
    label: str
    scopes: frozenset[Scope]
    created_at: str
    expires_at: str | None = None
    last_used_at: str | None = None
    revoked_at: str | None = None
    made_by: str | None = None
    """Id of the token that issued it, which may be deleted since; None: issued without one."""

    def holds(self, now: datetime) -> bool:
        return self.revoked_at is None and (self.expires_at is None or self.expires_at > to_text(now))


@dataclass(frozen=True)
class Revocation:
    """The tokens created by a revoked one, or by those."""

    token_id: str
    also_revoked: tuple[str, ...]
    """Ids of those that were revoked with it."""
    still_valid: tuple[str, ...]


@dataclass(frozen=True)
class AuditEntry:
    at: str
    actor: str
    action: str
    subject: str
    """The subject, as `kind:name`."""
    detail: JsonObject = field(default_factory=dict)
    entry_id: int = 0


def scopes_of(role: Role) -> frozenset[Scope]:
    """The maximum scope of a token of a user with this role."""
    return ALL_SCOPES if role is Role.ADMIN else ALL_SCOPES - {Scope.ADMIN}


def is_name(text: str) -> bool:
    return NAME.fullmatch(text) is not None and text not in RESERVED and ".." not in text


def scopes_up_to(most: str) -> list[Scope]:
    """Returns this scope and the lesser ones.

    Raises:
        ValueError: There is no such scope.
    """
    order = [Scope.READ, Scope.WRITE, Scope.ADMIN]
    return order[: order.index(Scope(most)) + 1]
