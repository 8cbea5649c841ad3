"""The table of models and its rows. Each function is a step of a transaction that its caller opened."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row
from sqlalchemy.exc import IntegrityError

from app.inference.model_card import MODEL_CARD
from app.kit.access import AccessRule, read_allowed
from app.kit.sql import metadata
from app.kit.sql.rows import from_row, row_of
from app.model_registry.model import AT, Model, SharedModel, build_shared_name, split_name

FILES_LOCK = 0x626C6F6273  # any number of ours: PostgreSQL's advisory locks have no names

OWNER_ALONE = "[]"
models = sa.Table(
    "models",
    metadata,
    sa.Column("owner", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("created_at", sa.String(32), nullable=False, index=True),
    sa.Column("newest", sa.Integer, nullable=False, server_default="1"),
    sa.Column("last_number", sa.Integer, nullable=False, server_default="1"),
    sa.Column("allowed", sa.Text, nullable=False, server_default=OWNER_ALONE),
)
"""newest: the version that the plain name refers to, since created_at. last_number: the highest number ever given.
allowed: who may use it beside its owner, as AccessRule.to_json."""
versions = sa.Table(
    "model_versions",
    metadata,
    sa.Column("owner", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Column("card", sa.Text, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False, index=True),
    sa.Column("twin_sha256", sa.String(64), nullable=False, index=True),
    sa.Column("job_id", sa.String(36), nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
    sa.Column("note", sa.Text, nullable=False),
    sa.Column("metrics", sa.Text, nullable=False),
)
"""card: app.inference.model_card.ModelCard as JSON. job_id: of the conversion it is from; empty when its
user brought it. facts: what is shown of it: inputs, outputs."""
tags = sa.Table(
    "model_tags",
    metadata,
    sa.Column("owner", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("tag", sa.String(32), primary_key=True),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("changed_at", sa.String(32), nullable=False),
)
DOCUMENTS = ("card", "facts", "metrics")


class NameTaken(Exception):
    """The user has another model of this name; the transaction has to be rolled back."""


def lock_files(conn: Connection) -> None:
    """Locks the files until the transaction ends, so that nobody else adds or removes a model. SQLite has only one
    writer anyway."""
    if conn.dialect.name == "postgresql":
        conn.execute(sa.select(sa.func.pg_advisory_xact_lock(FILES_LOCK)))


def add_model(conn: Connection, model: Model, *, is_next: bool = False) -> Model:
    """Adds the first version of a name.

    Args:
        model: gets its version here.
        is_next: if the name exists, this is its next version.

    Raises:
        NameTaken: The name exists.
    """
    number = _take_next_number(conn, model) if is_next else None
    if number is None:
        number = 1
        try:
            conn.execute(sa.insert(models).values(owner=model.owner, name=model.name, created_at=model.created_at))
        except IntegrityError as error:
            raise NameTaken from error
    version = model.as_version(number)
    documents = {name: json.dumps(dict(getattr(version, name))) for name in ("facts", "metrics")}
    values = row_of(versions, version.card, version, **documents, card=json.dumps(MODEL_CARD.write(version.card)))
    conn.execute(sa.insert(versions).values(values))
    return version


def _take_next_number(conn: Connection, model: Model) -> int | None:
    """Makes the plain name refer to the next version, and returns its number; None if there is no such name."""
    number = models.c.last_number + 1
    change = sa.update(models).where(*_match_name(models, model.owner, model.name))
    change = change.values(last_number=number, newest=number, created_at=model.created_at)
    return conn.execute(change.returning(models.c.last_number)).scalar()


def get_model(conn: Connection, owner: str, name: str) -> Model | None:
    """Returns the newest version of a plain name, or what `name@3` and `name@stable` refer to."""
    is_newest = versions.c.version == models.c.newest
    newest = sa.select(versions).join(models, _is_same(models, versions) & is_newest)
    row = conn.execute(newest.where(*_match_name(models, owner, name))).first()
    base, selector = split_name(name)
    if row is None and selector:
        tagged = sa.select(tags.c.version).where(*_match_name(tags, owner, base), tags.c.tag == selector)
        number = int(selector) if selector.isdigit() else tagged.scalar_subquery()
        row = conn.execute(
            sa.select(versions).where(*_match_name(versions, owner, base), versions.c.version == number)
        ).first()
    return _model_from_row(row) if row else None


def versions_of(conn: Connection, owner: str, name: str) -> list[Model]:
    """Returns the versions of a plain name, the newest first."""
    query = sa.select(versions).where(*_match_name(versions, owner, name)).order_by(versions.c.version.desc())
    return [_model_from_row(row) for row in conn.execute(query)]


def tags_of(conn: Connection, owner: str, name: str) -> dict[str, int]:
    """Returns the version of each tag of a plain name, sorted by tag."""
    query = sa.select(tags.c.tag, tags.c.version).where(*_match_name(tags, owner, name)).order_by(tags.c.tag)
    return {tag: int(version) for tag, version in conn.execute(query)}


def tagged(conn: Connection, owner: str, most: int) -> list[str]:
    """Returns an owner's tags as name@tag, sorted, at most this many."""
    query = sa.select(tags.c.name + AT + tags.c.tag).where(tags.c.owner == owner).order_by(tags.c.name, tags.c.tag)
    return list(conn.execute(query.limit(most)).scalars())


def put_tag(conn: Connection, owner: str, name: str, tag: str, version: int, at: str) -> None:
    """Set or move a tag.

    Args:
        name: of the model, plain.
        version: an existing one, which stays, since the caller holds lock_files.
        at: the time, ISO 8601.
    """
    remove_tag(conn, owner, name, tag)
    conn.execute(sa.insert(tags).values(owner=owner, name=name, tag=tag, version=version, changed_at=at))


def remove_tag(conn: Connection, owner: str, name: str, tag: str) -> bool:
    """Remove a tag.

    Args:
        name: of the model, plain.

    Returns:
        Whether it existed.
    """
    return conn.execute(sa.delete(tags).where(*_match_name(tags, owner, name), tags.c.tag == tag)).rowcount == 1


def get_allowed(conn: Connection, owner: str, name: str) -> AccessRule | None:
    """Returns who may use a plain name beside its owner; None: there is no such model."""
    text = conn.execute(sa.select(models.c.allowed).where(*_match_name(models, owner, name))).scalar()
    return None if text is None else read_allowed(json.loads(text))


def put_allowed(conn: Connection, owner: str, name: str, rule: AccessRule) -> None:
    """Sets who may use a model beside its owner.

    Args:
        name: of the model, plain.
        rule: whom it admits.
    """
    change = sa.update(models).where(*_match_name(models, owner, name))
    conn.execute(change.values(allowed=json.dumps(rule.to_json())))


def list_shared_models(conn: Connection) -> list[tuple[SharedModel, AccessRule]]:
    """Returns the models of all owners that others may use, by owner and name."""
    is_shared = models.c.allowed != OWNER_ALONE
    of_shared = sa.select(tags.c.owner, tags.c.name, tags.c.tag).join(models, _is_same(models, tags)).where(is_shared)
    tags_by_model: dict[tuple[str, str], list[str]] = {}
    for owner, name, tag in conn.execute(of_shared.order_by(tags.c.tag)):
        tags_by_model.setdefault((owner, name), []).append(tag)
    rows = conn.execute(sa.select(models).where(is_shared).order_by(models.c.owner, models.c.name))
    return [
        (
            SharedModel(
                row.owner,
                build_shared_name(row.owner, row.name),
                row.newest,
                tuple(tags_by_model.get((row.owner, row.name), ())),
                row.created_at,
            ),
            read_allowed(json.loads(row.allowed)),
        )
        for row in rows
    ]


def page(
    conn: Connection, owner: str, *, text: str = "", after: tuple[str, str] | None = None, limit: int
) -> list[Model]:
    """Returns the newest version of each name, the newest first, then by name.

    Args:
        text: part of the name, ignoring case.
        after: created_at and name of the last one before.
    """
    is_newest = versions.c.version == models.c.newest
    statement = sa.select(versions).join(models, _is_same(models, versions) & is_newest).where(models.c.owner == owner)
    if text:
        statement = statement.where(models.c.name.icontains(text, autoescape=True))
    if after is not None:
        at, name = after
        is_older, is_same = models.c.created_at < at, models.c.created_at == at
        statement = statement.where(is_older | (is_same & (models.c.name > name)))
    ordered = statement.order_by(models.c.created_at.desc(), models.c.name).limit(limit)
    return [_model_from_row(row) for row in conn.execute(ordered)]


def remove_model(conn: Connection, owner: str, name: str) -> list[Model]:
    """Removes a plain name.

    Returns:
        All its versions; none if it did not exist.
    """
    removed = conn.execute(sa.delete(versions).where(*_match_name(versions, owner, name)).returning(*versions.c)).all()
    for table in (tags, models):
        conn.execute(sa.delete(table).where(*_match_name(table, owner, name)))
    return [_model_from_row(row) for row in removed]


def remove_version(conn: Connection, model: Model) -> None:
    """Removes one of several versions. The plain name then refers to the newest remaining one."""
    same = _match_name(versions, model.owner, model.name)
    conn.execute(sa.delete(versions).where(*same, versions.c.version == model.version))
    left = sa.select(versions.c.version, versions.c.created_at).where(*same).order_by(versions.c.version.desc())
    newest = conn.execute(left.limit(1)).one()
    values = {"newest": newest.version, "created_at": newest.created_at}
    conn.execute(sa.update(models).where(*_match_name(models, model.owner, model.name)).values(values))


def list_named_files(conn: Connection, digests: Collection[str]) -> set[str]:
    """Returns which of these digests are the file or the twin of a model of any user."""
    columns = (versions.c.sha256, versions.c.twin_sha256)
    statement = sa.union(*(sa.select(column).where(column.in_(digests)) for column in columns))
    return set(conn.execute(statement).scalars())


def _match_name(table: sa.Table, owner: str, name: str) -> tuple[sa.ColumnElement[bool], ...]:
    return table.c.owner == owner, table.c.name == name


def _is_same(one: sa.Table, other: sa.Table) -> sa.ColumnElement[bool]:
    return (one.c.owner == other.c.owner) & (one.c.name == other.c.name)


def _model_from_row(row: Row[Any]) -> Model:
    documents = {name: json.loads(getattr(row, name)) for name in DOCUMENTS}
    return from_row(Model, row, **{**documents, "card": MODEL_CARD.read(documents["card"])})
