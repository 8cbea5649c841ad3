"""Makes, changes and deletes users."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Unpack

from sqlalchemy import Connection

from app.accounts import store
from app.accounts.errors import BadGroupName, BadUserName, LastAdmin, NameWasUsed, UserExists, UserIsBusy, UserNotFound
from app.accounts.model import RESERVED, Role, User, UserFields, is_name
from app.accounts.service.audit_log import note
from app.kit.access import GROUP, Member
from app.kit.clock import now, to_text
from app.kit.sql import Database

OnChange = Callable[[Connection, str, User], str | None]
"""on_change(transaction, event, user): created, enabled, disabled, changed or deleted. May only write to SQL.

Returns the secret that is shown once to the caller, if there is one.
"""
SYSTEM = "system"


@dataclass(frozen=True)
class ActiveWork:
    """A user's possible running work in another capability."""

    name: str
    """In the plural: "jobs"."""
    count: Callable[[str], int]
    """How much of it the user of this name has."""
    cancel: Callable[[str], None]


class Users:
    """by: the acting user, for the audit log."""

    def __init__(self, database: Database, on_change: Sequence[OnChange], works: Sequence[ActiveWork]) -> None:
        self.database = database
        self.on_change = on_change
        self.works = works

    def create(
        self,
        name: str,
        role: Role,
        *,
        by: str,
        quota_bytes: int | None = None,
        quota_files: int | None = None,
        is_reuse: bool = False,
    ) -> tuple[User, str | None]:
        """Creates a user.

        Args:
            is_reuse: The name of a deleted user may be reused, with whatever is left of theirs.

        Returns:
            The user and their one-time SFTP password, which is shown only once; None if there is no SFTP.

        Raises:
            BadUserName, UserExists, NameWasUsed: A user of this name is not possible.
        """
        if not is_name(name):
            raise BadUserName(
                f"{name!r} cannot be a user's name.",
                hint="2 to 32 small letters, digits, '-', '_' and '.', beginning with a letter; "
                f"{', '.join(sorted(RESERVED))} are the system's.",
            )
        user = User(name, role, True, to_text(now()), quota_bytes, quota_files)
        with self.database.write() as conn:
            if not is_reuse and store.was_deleted(conn, name):
                raise NameWasUsed(
                    f"A user {name} was deleted; a new one of this name would get what is left of theirs.",
                    hint=f"Choose another name, or run `modelmill users create {name} --reuse` if that is wanted.",
                )
            if not store.add_user(conn, user):
                raise UserExists(f"There is a user {name} already.", hint="Choose another name.")
            note(conn, by, "user.created", f"user:{name}", {"role": role.value})
            password = self._tell(conn, "created", user)
        return user, password

    def ensure(self, name: str, role: Role) -> None:
        """The local user of an installation without accounts."""
        with self.database.read() as conn:
            exists = store.get_user(conn, name) is not None
        if not exists:
            self.create(name, role, by=SYSTEM, is_reuse=True)

    def page(self, *, text: str = "", after: str = "", limit: int = 100) -> list[tuple[User, str | None]]:
        """By name, each with when a token of theirs was last used.

        Args:
            text: part of the name.
            after: a name.
        """
        with self.database.read() as conn:
            return store.list_users(conn, text=text, after=after, limit=limit)

    def get(self, name: str) -> User:
        with self.database.read() as conn:
            return _require(store.get_user(conn, name), name)

    def member(self, name: str) -> Member:
        """The user as access rules see them. A deleted user is in no group."""
        with self.database.read() as conn:
            user = store.get_user(conn, name)
        return Member(name, user.groups, user.role is Role.ADMIN) if user else Member(name)

    def enabled_of(self, names: Collection[str]) -> set[str]:
        """Those of these names that are existing and enabled users."""
        with self.database.read() as conn:
            return store.enabled_of(conn, names)

    def has_admin(self) -> bool:
        """Whether a user exists who could sign in and manage users."""
        with self.database.read() as conn:
            return store.count_admin_tokens(conn, to_text(now())) > 0

    def change(self, name: str, *, by: str, **fields: Unpack[UserFields]) -> User:
        """Changes those fields that differ, all or none.
        Disabling ends the user's sessions.

        Raises:
            UserNotFound: There is no such user.
            LastAdmin: Nobody could manage users any more.
            BadGroupName: A group cannot have this name.
        """
        if "groups" in fields:
            fields["groups"] = _check_groups(fields["groups"])
        with self._guard(name) as (conn, user):
            fresh = {field: value for field, value in fields.items() if value != getattr(user, field)}
            if not fresh:
                return user
            store.change_user(conn, name, **fresh)
            changed = _require(store.get_user(conn, name), name)
            for field, value in fresh.items():
                self._note_change(conn, by, user, field, value)
            if fresh.get("is_enabled") is False:
                store.delete_sessions_of(conn, name)
            self._tell(conn, _name_event(fresh), changed)
        return changed

    def busy(self, name: str) -> dict[str, int]:
        """The user's running work: how much of each kind there is."""
        counts = {work.name: work.count(name) for work in self.works}
        return {kind: count for kind, count in counts.items() if count}

    def delete(self, name: str, *, by: str, is_cancelling: bool = False) -> None:
        """Deletes the account, its tokens and sessions; what the user made stays until it expires, without an owner.

        Args:
            is_cancelling: running work is cancelled first; the user is disabled before that, so that no new work
                starts.

        Raises:
            UserNotFound: There is no such user.
            LastAdmin: Nobody could manage users any more.
            UserIsBusy: Work of the user is under way.
        """
        self.get(name)
        under_way = self.busy(name)
        if under_way and not is_cancelling:
            counts = ", ".join(f"{kind} ({count})" for kind, count in under_way.items())
            raise UserIsBusy(
                f"{name} has work under way: {counts}.",
                hint="Wait until they have ended, or delete with ?cancel=true.",
                detail=dict(under_way),
            )
        if under_way:
            self.change(name, by=by, is_enabled=False)
            for work in self.works:
                work.cancel(name)
        with self._guard(name) as (conn, user):
            store.delete_user(conn, name)
            note(conn, by, "user.deleted", f"user:{name}", {"cancelled": dict(under_way)} if under_way else None)
            self._tell(conn, "deleted", user)

    @contextmanager
    def _guard(self, name: str) -> Iterator[tuple[Connection, User]]:
        """A transaction that changes a user; rolled back if nobody who can manage users would remain."""
        with self.database.write() as conn:
            store.lock_admins(conn)
            user = _require(store.lock_user(conn, name), name)
            yield conn, user
            if user.role is Role.ADMIN and user.is_enabled and store.count_admins(conn) == 0:
                raise LastAdmin(
                    "Nobody would be left who can manage users.", hint="Make somebody else an administrator first."
                )

    @staticmethod
    def _note_change(conn: Connection, by: str, user: User, field: str, value: Any) -> None:
        if field == "is_enabled":
            note(conn, by, "user.enabled" if value else "user.disabled", f"user:{user.name}")
        else:
            was = getattr(user, field)
            note(conn, by, f"user.{field}", f"user:{user.name}", {"was": was, "is": value})

    def _tell(self, conn: Connection, event: str, user: User) -> str | None:
        secrets = [listener(conn, event, user) for listener in self.on_change]
        return next(filter(None, secrets), None)


def _check_groups(groups: Collection[str]) -> tuple[str, ...]:
    wrong = next((group for group in groups if GROUP.fullmatch(group) is None), None)
    if wrong is not None:
        raise BadGroupName(
            f"{wrong[:64]!r} cannot be the name of a group.", hint="1 to 31 small letters, digits, '-', '_' and '.'."
        )
    return tuple(sorted(set(groups)))


def _name_event(fresh: Mapping[str, object]) -> str:
    if "is_enabled" in fresh:
        return "enabled" if fresh["is_enabled"] else "disabled"
    return "changed"


def _require(user: User | None, name: str) -> User:
    if user is None:
        raise UserNotFound(f"There is no user {name}.", hint="Look for the name in the list of users.")
    return user
