"""The table of models and its rows. Each function is a step of a transaction that its caller opened."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from app.inference.prediction import MODEL_CARD
from app.kit.sql import metadata
from app.kit.sql.rows import row_of
from app.model_registry.model import Model

FILES_LOCK = 0x626C6F6273  # any number of our own: PostgreSQL's advisory locks have no names

models = sa.Table(
    "models",
    metadata,
    sa.Column("owner", sa.String(32), primary_key=True),
    sa.Column("name", sa.String(200), primary_key=True),
    sa.Column("created_at", sa.String(32), nullable=False, index=True),
    sa.Column("card", sa.Text, nullable=False),
    sa.Column("sha256", sa.String(64), nullable=False, index=True),
    sa.Column("twin_sha256", sa.String(64), nullable=False, index=True),
    sa.Column("job_id", sa.String(36), nullable=False),
    sa.Column("facts", sa.Text, nullable=False),
)
"""card: app.inference.prediction.ModelCard as JSON. job_id: of the conversion it is from; empty when its
user brought it. facts: what is shown of it: inputs, outputs."""


class NameTaken(Exception):
    """Its user has another of this name; the transaction is to be given up."""


def lock_files(conn: Connection) -> None:
    """Until the transaction ends nobody else adds or removes a model: SQLite has one writer anyway."""
    if conn.dialect.name == "postgresql":
        conn.execute(sa.select(sa.func.pg_advisory_xact_lock(FILES_LOCK)))


def add_model(conn: Connection, model: Model) -> None:
    """Raises NameTaken."""
    try:
        conn.execute(
            sa.insert(models).values(
                row_of(
                    models,
                    model.card,
                    model,
                    card=json.dumps(MODEL_CARD.write(model.card)),
                    facts=json.dumps(dict(model.facts)),
                )
            )
        )
    except IntegrityError as error:
        raise NameTaken from error


def get_model(conn: Connection, owner: str, name: str) -> Model | None:
    row = conn.execute(sa.select(models).where(models.c.owner == owner, models.c.name == name)).first()
    return _model(row) if row else None


def page(
    conn: Connection, owner: str, *, text: str = "", after: tuple[str, str] | None = None, limit: int
) -> list[Model]:
    """Newest first, of the same moment by name.

    Args:
        text: in the name, whatever its case.
        after: created_at and name.
    """
    statement = sa.select(models).where(models.c.owner == owner)
    if text:
        statement = statement.where(models.c.name.icontains(text, autoescape=True))
    if after is not None:
        at, name = after
        is_older, is_same = models.c.created_at < at, models.c.created_at == at
        statement = statement.where(is_older | (is_same & (models.c.name > name)))
    ordered = statement.order_by(models.c.created_at.desc(), models.c.name).limit(limit)
    return [_model(row) for row in conn.execute(ordered)]


def remove_model(conn: Connection, owner: str, name: str) -> Model | None:
    """What was removed; None when there was none."""
    same = (models.c.owner == owner, models.c.name == name)
    row = conn.execute(sa.delete(models).where(*same).returning(*models.c)).first()
    return _model(row) if row else None


def named_files(conn: Connection, digests: Collection[str]) -> set[str]:
    """Those of these that a model names, anybody's, as its file or as its twin."""
    columns = (models.c.sha256, models.c.twin_sha256)
    statement = sa.union(*(sa.select(column).where(column.in_(digests)) for column in columns))
    return set(conn.execute(statement).scalars())


def _model(row: Any) -> Model:
    return Model(
        owner=row.owner,
        card=MODEL_CARD.read(json.loads(row.card)),
        created_at=row.created_at,
        job_id=row.job_id,
        facts=json.loads(row.facts),
    )
