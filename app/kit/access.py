"""Access rules for resources of the installation: everybody, or users and groups by name. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from app.kit.errors import BadInput

GROUP = re.compile(r"[a-z0-9][a-z0-9._-]{0,30}")
_NAME = re.compile(r"@?[a-z0-9][a-z0-9._-]{0,31}")
MOST = 200
ALL = "*"


EnabledOf = Callable[[Collection[str]], Collection[str]]
"""Returns those of these users who are enabled."""


class BadAccess(BadInput, code="BAD_ACCESS"):
    """The input is not a list of users and groups."""


@dataclass(frozen=True)
class Member:
    """A user as an access rule sees them. An administrator may use everything, since they could grant it to
    themselves."""

    name: str
    groups: Collection[str] = ()
    is_admin: bool = False


@dataclass(frozen=True)
class AccessRule:
    """Who may use a resource."""

    names: tuple[str, ...] | None = None
    """Users, and groups as @group, sorted; None: everybody; empty: only administrators."""

    def admits(self, member: Member) -> bool:
        if self.names is None or member.is_admin or member.name in self.names:
            return True
        return any(f"@{group}" in self.names for group in member.groups)

    @property
    def text(self) -> str:
        """The rule as a form shows it; read_typed reads it again."""
        return ALL if self.names is None else " ".join(self.names)

    def to_json(self) -> list[str] | None:
        return None if self.names is None else list(self.names)


EVERYBODY = AccessRule()


def read_allowed(names: Iterable[str] | None) -> AccessRule:
    """Reads a list of names; None: everybody. A name need not exist yet.

    Raises:
        BadAccess: A name is neither a user nor a group, or there are more than MOST.
    """
    if names is None:
        return EVERYBODY
    allowed_names = tuple(sorted(set(names)))
    wrong = next((name for name in allowed_names if _NAME.fullmatch(name) is None), None)
    if wrong is not None or len(allowed_names) > MOST:
        what = (
            f"{wrong[:64]!r} is neither a user nor a group."
            if wrong is not None
            else f"These are {len(allowed_names)} names."
        )
        raise BadAccess(what, hint=f"Name users as alice, and groups as @lab; {MOST} of them at most.")
    return AccessRule(allowed_names)


def read_typed(text: str) -> AccessRule:
    """Reads the text of a form field: names, or `ALL` for everybody.

    Raises:
        BadAccess: As `read_allowed`.
    """
    return EVERYBODY if text.strip() == ALL else read_allowed(names_in(text))


def words_of(names: list[str] | None) -> str:
    """The rule as one line of text."""
    return "everybody" if names is None else " ".join(names) or "administrators only"


def names_in(text: str) -> list[str]:
    """The names in a typed line, separated by commas or spaces."""
    return [name for name in re.split(r"[\s,]+", text) if name]
