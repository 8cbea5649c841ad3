"""Services in SQL: how they start, what changes them, and how they are read. In the caller's transactions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row
from sqlalchemy.exc import IntegrityError

from app.joint_inference.model.resource import Service
from app.joint_inference.model.rollout import RolloutState
from app.joint_inference.model.status import ConditionType, current_of
from app.joint_inference.store.events import note_condition
from app.joint_inference.store.tables import drifts, edges, events, samples, services, versions
from app.kit.sql.pages import page_of
from app.kit.sql.rows import first, from_row
from app.kit.text.json_values import JsonObject
from app.model_registry.model import build_shared_name
from app.results.store import forget_producers

JSON = frozenset({"spec", "status", "labels", "annotations", "reported", "managed", "rollout"})
ROLLING = f'"{RolloutState.PROGRESSING}"'
"""Stands in the rollout of such a service."""
IS_THERE = services.c.gone_at.is_(None)


class NameTaken(Exception):
    """Its owner has a service of this name there. The transaction is to be given up."""


@dataclass(frozen=True)
class LastingProblem:
    """A problem of a service: since when it has it, and whether its user was told."""

    since: str
    is_told: bool = False


@dataclass(frozen=True)
class ServiceFilter:
    """What of the services is listed; empty: all."""

    namespace: str | None = None
    text: str = ""
    """Part of a name."""
    state: str = ""
    """Type of the current condition."""


def newest_version(conn: Connection) -> int:
    return int(conn.execute(sa.select(versions.c.version)).scalar_one())


def add_service(conn: Connection, service: Service, at: str) -> Service:
    """Stores a service under a new version.

    Raises:
        NameTaken: Another one has its namespace and name.
    """
    version = _take_next_version(conn)
    values = {name: value for name, value in vars(service).items() if name not in JSON}
    texts = {name: json.dumps(getattr(service, name)) for name in JSON}
    try:
        conn.execute(
            sa.insert(services).values(
                **{**values, **texts, "version": version}, state=_get_state(service.status), looked_at=at
            )
        )
    except IntegrityError as error:
        raise NameTaken from error
    note_condition(conn, service.uid, {}, service.status)
    return by_uid(conn, service.uid) or service


def change_service(conn: Connection, service: Service, **fields: Any) -> Service | None:
    """fields: of Service, but for its version, which rises. None: it is not as it was read, nothing was done."""
    values = {name: json.dumps(value) if name in JSON else value for name, value in fields.items()}
    if "status" in fields:
        values["state"] = _get_state(fields["status"])
    same = (services.c.uid == service.uid, services.c.version == service.version)
    query = sa.update(services).where(*same).values(**values, version=_take_next_version(conn)).returning(*services.c)
    row = conn.execute(query).first()
    if row is not None and "status" in fields:
        note_condition(conn, service.uid, service.status, fields["status"])
    return to_service(row) if row else None


def note_look(conn: Connection, uids: Collection[str], at: str) -> None:
    """No change that anybody sees."""
    conn.execute(sa.update(services).where(services.c.uid.in_(uids)).values(looked_at=at))


def by_uid(conn: Connection, uid: str) -> Service | None:
    return _find_first(conn, services.c.uid == uid)


def lock(conn: Connection, uid: str) -> Service | None:
    """As by_uid; until the transaction ends nobody else changes it."""
    return first(conn, sa.select(services).where(services.c.uid == uid).with_for_update(), to_service)


def find_last_look(conn: Connection, uid: str) -> str | None:
    at: str | None = conn.execute(sa.select(services.c.looked_at).where(services.c.uid == uid)).scalar()
    return at


def by_name(conn: Connection, owner: str, namespace: str, name: str) -> Service | None:
    """The service of this name that has not been deleted.

    Args:
        owner: a user.
        name: of the service.
    """
    return _find_first(
        conn, services.c.owner == owner, services.c.namespace == namespace, services.c.name == name, IS_THERE
    )


def of_this_name(conn: Connection, namespace: str, name: str) -> list[Service]:
    """Of all owners."""
    rows = conn.execute(sa.select(services).where(services.c.namespace == namespace, services.c.name == name, IS_THERE))
    return [to_service(row) for row in rows]


def page(
    conn: Connection, owner: str, filters: ServiceFilter, *, before: tuple[str, str] | None, limit: int
) -> list[Service]:
    """Newest first.

    Args:
        before: created_at and uid of the last one seen.
    """
    query = sa.select(services).where(services.c.owner == owner, IS_THERE)
    if filters.namespace is not None:
        query = query.where(services.c.namespace == filters.namespace)
    if filters.text:
        query = query.where(services.c.name.contains(filters.text.lower(), autoescape=True))
    if filters.state:
        query = query.where(services.c.state == filters.state)
    keys = (services.c.created_at, services.c.uid)
    return [to_service(row) for row in conn.execute(page_of(query, keys, before, limit))]


def every(conn: Connection, owner: str, namespace: str | None) -> list[Service]:
    """By namespace and name."""
    query = sa.select(services).where(services.c.owner == owner, IS_THERE)
    if namespace is not None:
        query = query.where(services.c.namespace == namespace)
    return [to_service(row) for row in conn.execute(query.order_by(services.c.namespace, services.c.name))]


def list_changed(conn: Connection, owner: str, after: int, namespace: str | None) -> list[Service]:
    """Services that have changed, deleted ones among them, in the order of their changes.

    Args:
        after: the version that is known already.
        namespace: None: all.
    """
    query = sa.select(services).where(services.c.owner == owner, services.c.version > after)
    if namespace is not None:
        query = query.where(services.c.namespace == namespace)
    return [to_service(row) for row in conn.execute(query.order_by(services.c.version))]


def looked_at_before(conn: Connection, at: str, limit: int, *, latest: str) -> list[str]:
    """Returns the services to look at again.

    Args:
        at: those that were looked at before this time.
        latest: and those after this one: the clock was set back.
    """
    is_due = sa.or_(services.c.looked_at < at, services.c.looked_at > latest)
    query = sa.select(services.c.uid).where(is_due, IS_THERE)
    return list(conn.execute(query.order_by(services.c.looked_at).limit(limit)).scalars())


def uids(conn: Connection) -> list[str]:
    """Of all that are not being deleted."""
    return list(conn.execute(sa.select(services.c.uid).where(IS_THERE, services.c.deleted_at.is_(None))).scalars())


def count_by_state(conn: Connection) -> dict[str, int]:
    """State → how many services."""
    counted = sa.select(services.c.state, sa.func.count()).where(IS_THERE).group_by(services.c.state)
    return {state: int(count) for state, count in conn.execute(counted)}


def figures(conn: Connection, limit: int) -> list[tuple[tuple[str, str, str], JsonObject]]:
    """Owner, namespace and name of those that have reported, and what; oldest first."""
    c = services.c
    query = sa.select(c.owner, c.namespace, c.name, c.reported).where(IS_THERE, c.reported != "{}")
    rows = conn.execute(query.order_by(c.created_at, c.uid).limit(limit))
    return [((row.owner, row.namespace, row.name), json.loads(row.reported)) for row in rows]


def there_for(conn: Connection, owner: str) -> list[Service]:
    """Those that are not being deleted already."""
    query = sa.select(services).where(services.c.owner == owner, IS_THERE, services.c.deleted_at.is_(None))
    return [to_service(row) for row in conn.execute(query)]


def there_with_models_of(conn: Connection, owner: str) -> list[Service]:
    """Those that are not being deleted already, of this owner, and of others that may name a model of theirs."""
    prefix = f'"{build_shared_name(owner, "")}'
    names_one = (column.contains(prefix, autoescape=True) for column in (services.c.spec, services.c.rollout))
    is_affected = sa.or_(services.c.owner == owner, *names_one)
    query = sa.select(services).where(is_affected, IS_THERE, services.c.deleted_at.is_(None))
    return [to_service(row) for row in conn.execute(query.order_by(services.c.created_at, services.c.uid))]


def there_with_text(conn: Connection, text: str) -> list[Service]:
    """Those that are not being deleted already, and have this text in their spec."""
    has_text = services.c.spec.contains(text, autoescape=True)
    query = sa.select(services).where(has_text, IS_THERE, services.c.deleted_at.is_(None))
    return [to_service(row) for row in conn.execute(query)]


def selecting(conn: Connection) -> list[str]:
    """The uids of those that select their edge nodes by labels."""
    is_fleet = services.c.spec.contains('"nodeSelector"')
    return list(conn.execute(sa.select(services.c.uid).where(is_fleet, IS_THERE)).scalars())


def not_settled(conn: Connection, looked_at_before: str, limit: int) -> list[str]:
    """Those that do not run, or on whose nodes a new model is under way."""
    is_settled = (services.c.state == ConditionType.RUNNING.value) & ~services.c.rollout.contains(ROLLING)
    is_due = (services.c.looked_at < looked_at_before, ~is_settled, IS_THERE)
    return list(
        conn.execute(sa.select(services.c.uid).where(*is_due).order_by(services.c.looked_at).limit(limit)).scalars()
    )


def list_gone_before(conn: Connection, at: str) -> list[str]:
    return list(conn.execute(sa.select(services.c.uid).where(services.c.gone_at < at)).scalars())


def forget(conn: Connection, uids: Collection[str]) -> None:
    forget_producers(conn, uids)
    for table in (events, edges, drifts, samples, services):
        conn.execute(sa.delete(table).where(table.c.uid.in_(uids)))


def _find_first(conn: Connection, *conditions: Any) -> Service | None:
    return first(conn, sa.select(services).where(*conditions), to_service)


def _take_next_version(conn: Connection) -> int:
    """Locks the row, so that the next change waits and versions are seen in order."""
    query = sa.update(versions).values(version=versions.c.version + 1).returning(versions.c.version)
    return int(conn.execute(query).scalar_one())


def _get_state(status: Mapping[str, Any]) -> str:
    current = current_of(status)
    return str(current["type"]) if current else ""


def to_service(row: Row[Any]) -> Service:
    return from_row(Service, row, **{name: json.loads(getattr(row, name)) for name in JSON})


def problems_of(conn: Connection, uid: str) -> dict[str, LastingProblem]:
    """Returns the problems of a service, by ProblemKind."""
    text = conn.execute(sa.select(services.c.problems).where(services.c.uid == uid)).scalar_one()
    return {name: LastingProblem(**fields) for name, fields in json.loads(text).items()}


def put_problems(conn: Connection, uid: str, problems: Mapping[str, LastingProblem]) -> None:
    """No change that watchers see."""
    text = json.dumps({name: vars(one) for name, one in problems.items()})
    conn.execute(sa.update(services).where(services.c.uid == uid).values(problems=text))
