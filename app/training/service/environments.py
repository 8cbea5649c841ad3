"""Environments that tasks run in: written by administrators, chosen by the users who may."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection

from app.kit.access import Member
from app.kit.clock import to_text
from app.kit.sql import Database
from app.kit.text.json_values import JsonObject
from app.training import store
from app.training.errors import EnvironmentInUse, EnvironmentNotFound
from app.training.model import Priority
from app.training.spec import TaskSpec
from app.training.spec.environments import (
    EnvironmentSpec,
    check_name,
    choose_cluster,
    read_environment,
    unknown,
    within,
)

MemberOf = Callable[[str], Member]
"""A user with their groups, as lists of who may use a thing see them."""
Note = Callable[[Connection, str, str, str], None]
"""Into the audit: by whom, what, of what. In the transaction of what was done."""


@dataclass(frozen=True)
class Environment:
    """An environment as it was last written."""

    name: str
    spec: EnvironmentSpec
    text: str
    """Its document, as its administrator wrote it."""
    updated_at: str
    updated_by: str


@dataclass(frozen=True)
class Environments:
    """The environments in which tasks run, and who may use them."""

    database: Database
    member_of: MemberOf = Member
    note: Note = lambda *_: None
    clusters: Sequence[str] = ("main",)
    """Names of the installation's clusters, the default one first."""

    def all(self) -> list[Environment]:
        """By name, of everybody."""
        with self.database.read() as conn:
            return [_read(row) for row in store.environments_by_name(conn)]

    def seen_by(self, user: str, *, is_admin: bool = False) -> list[Environment]:
        """Those that a user may use, by name."""
        everyone = self.all()
        member = self.member_of(user)
        return [one for one in everyone if is_admin or one.spec.access.admits(member)]

    def get(self, name: str) -> Environment:
        """Returns an environment.

        Raises:
            EnvironmentNotFound: There is none of this name.
        """
        with self.database.read() as conn:
            row = store.environment_of(conn, name)
        if row is None:
            raise EnvironmentNotFound(f"There is no environment {name}.", hint="The list shows those there are.")
        return _read(row)

    def put(self, name: str, body: bytes, *, by: str, now: datetime) -> Environment:
        """Add an environment, or write it anew. Attempts that run keep what they began with.

        Args:
            body: its document, YAML or JSON.
            by: the administrator.

        Raises:
            TooLarge, UnreadableSpec, BadSpec: As of a task.
        """
        check_name(name)
        spec, text = read_environment(body)
        with self.database.write() as conn:
            store.put_environment(conn, name, text, at=to_text(now), by=by)
            self.note(conn, by, "environment.written", name)
        return Environment(name, spec, text, to_text(now), by)

    def delete(self, name: str, *, by: str) -> None:
        """Deletes an environment.

        Raises:
            EnvironmentNotFound: There is none of this name.
            EnvironmentInUse: A task of it has not ended.
        """
        self.get(name)
        with self.database.write() as conn:
            count = store.count_unended_in(conn, name)
            if count:
                raise EnvironmentInUse(
                    f"{count} tasks of this environment have not ended.", hint="Wait for their end, or cancel them."
                )
            store.delete_environment(conn, name)
            self.note(conn, by, "environment.deleted", name)

    def apply(self, user: str, spec: TaskSpec, *, is_admin: bool = False) -> JsonObject:
        """What the environment that a task names makes of it, and the cluster it names: fields of the task.

        Raises:
            BadSpec: Its user has no such environment, or it asks for more than that gives; or there is no such cluster,
                or it does not have the environment.
        """
        if spec.environment is None:
            cluster = choose_cluster(spec.cluster, self.clusters)
            return {"priority": spec.priority, "max_run_s": spec.max_run_s, "cluster": cluster}
        usable = {one.name: one.spec for one in self.seen_by(user, is_admin=is_admin)}
        if spec.environment not in usable:
            raise unknown(spec.environment, list(usable))
        environment = usable[spec.environment]
        cluster = choose_cluster(spec.cluster, self.clusters, environment.clusters)
        return {**within(spec, environment), "environment": spec.environment, "cluster": cluster}

    def least_urgent(self, name: str) -> Priority | None:
        """The highest priority that the tasks of an environment may be given by their users; None: as elsewhere."""
        with self.database.read() as conn:
            row = store.environment_of(conn, name) if name else None
        return _read(row).spec.priority if row is not None else None

    def by_name(self) -> Mapping[str, EnvironmentSpec]:
        return {one.name: one.spec for one in self.all()}


def _read(row: store.EnvironmentRow) -> Environment:
    return Environment(
        row.name, read_environment(row.document.encode())[0], row.document, row.updated_at, row.updated_by
    )
