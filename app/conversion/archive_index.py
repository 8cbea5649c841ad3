"""The index of the archive in SQL, for finding finished jobs. The store is authoritative; every row can be rebuilt from
it. Each function is a step of a transaction that its caller opened."""

from __future__ import annotations

import json
import operator
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row

from app.conversion import object_keys
from app.conversion.archive_schemas import ArchivedJobRow
from app.conversion.model import JobRecord, Stage
from app.kit.clock import from_text
from app.kit.sql import metadata
from app.kit.sql.rows import first, upsert

archive = sa.Table(
    "conversion_archive",
    metadata,
    sa.Column("job_id", sa.String(36), primary_key=True),
    sa.Column("owner", sa.String(32), nullable=False),
    sa.Column("name", sa.String(200), nullable=False),
    sa.Column("tags", sa.Text, nullable=False),
    sa.Column("model_sha256", sa.String(64), nullable=False),
    sa.Column("toolchain", sa.String(16), nullable=False),
    sa.Column("platform", sa.String(16), nullable=False),
    sa.Column("verdict", sa.String(16), nullable=False),
    sa.Column("snr_db", sa.Float),
    sa.Column("created_at", sa.String(32), nullable=False),
    sa.Column("finished_at", sa.String(32), nullable=False),
    sa.Column("took_s", sa.Float, nullable=False),
    sa.Column("size_bytes", sa.BigInteger, nullable=False),
    sa.Column("is_kept", sa.Boolean, nullable=False),
    sa.Index("ix_conversion_archive_owner_finished_at", "owner", "finished_at"),
)
"""See ArchivedJobRow. tags: as JSON; platform, verdict: empty if there is none."""
owners = sa.Table(
    "conversion_archive_owners",
    metadata,
    sa.Column("owner", sa.String(32), primary_key=True),
    sa.Column("since", sa.String(32), nullable=False),
)
"""Start of Redis' memory when this owner's rows were last compared with the store."""


@dataclass(frozen=True)
class ArchiveFilter:
    """Which jobs to list; None means any."""

    text: str | None = None
    """In id, name or tags, without regard to case."""
    tag: str | None = None
    """One whole tag, without regard to case."""
    model: str | None = None
    """The beginning of the model's SHA-256."""
    toolchain: str | None = None
    platform: str | None = None
    verdict: str | None = None
    snr_min_db: float | None = None
    snr_max_db: float | None = None
    since: str | None = None
    """Finished then or later: a time as app.kit.clock writes it."""
    until: str | None = None
    """Completed before this time."""
    is_kept: bool | None = None


def row_of(record: JobRecord, *, is_kept: bool) -> ArchivedJobRow:
    """The indexed data of a finished job."""
    model = record.artifacts.get(object_keys.MODEL)
    ended = record.finished_at or record.updated_at
    return ArchivedJobRow(
        job_id=record.job_id,
        owner=record.owner,
        name=record.name,
        tags=record.tags,
        model_sha256=model.sha256 if model else "",
        toolchain=record.options.toolchain.value,
        platform=record.options.platform.value if record.options.platform else "",
        verdict=record.verdict.value if record.verdict else "",
        snr_db=record.stages[Stage.BIE.step].summary.get("snr_db"),
        created_at=record.created_at,
        finished_at=ended,
        took_s=max(0.0, (from_text(ended) - from_text(record.created_at)).total_seconds()),
        size_bytes=sum(artifact.size_bytes for artifact in record.artifacts.values()),
        is_kept=is_kept,
    )


def put(conn: Connection, row: ArchivedJobRow) -> None:
    """Adds it, or replaces the entry with its id."""
    upsert(conn, archive, {**asdict(row), "tags": json.dumps(row.tags, ensure_ascii=False)})


def get(conn: Connection, job_id: str) -> ArchivedJobRow | None:
    return first(conn, sa.select(archive).where(archive.c.job_id == job_id), _build_row)


def remove(conn: Connection, job_ids: Collection[str]) -> None:
    if job_ids:
        conn.execute(sa.delete(archive).where(archive.c.job_id.in_(job_ids)))


def ids_of(conn: Connection, owner: str | None = None) -> set[str]:
    """Everything, or everything of this owner."""
    statement = sa.select(archive.c.job_id)
    return set(conn.execute(statement if owner is None else statement.where(archive.c.owner == owner)).scalars())


def owners_of(conn: Connection) -> set[str]:
    """All owners with archived jobs."""
    return set(conn.execute(sa.select(archive.c.owner).distinct()).scalars())


def find_compared_since(conn: Connection, owner: str) -> str | None:
    """See the table of owners; None if it was never compared."""
    return conn.execute(sa.select(owners.c.since).where(owners.c.owner == owner)).scalar()


def note_compared(conn: Connection, owner: str, since: str) -> None:
    upsert(conn, owners, {"owner": owner, "since": since})


def forget_compared(conn: Connection) -> None:
    """Has the rows of all owners compared again."""
    conn.execute(sa.delete(owners))


def page(
    conn: Connection, owner: str, criteria: ArchiveFilter, *, after: tuple[str, str] | None = None, limit: int
) -> list[ArchivedJobRow]:
    """Returns this owner's jobs, the last finished first, then by id.

    Args:
        after: finished_at and id of the last row of the previous page.
    """
    statement = sa.select(archive).where(archive.c.owner == owner, *_build_conditions(criteria))
    if after is not None:
        at, job_id = after
        is_older, is_same = archive.c.finished_at < at, archive.c.finished_at == at
        statement = statement.where(is_older | (is_same & (archive.c.job_id > job_id)))
    ordered = statement.order_by(archive.c.finished_at.desc(), archive.c.job_id).limit(limit)
    return [_build_row(row) for row in conn.execute(ordered)]


def _build_conditions(criteria: ArchiveFilter) -> Iterable[Any]:
    columns = archive.c
    if criteria.text is not None:
        tags = sa.func.replace(sa.func.trim(columns.tags, "[]"), '", "', "\n")  # what separates them is no text of them
        parts = [part.icontains(criteria.text, autoescape=True) for part in (columns.job_id, columns.name)]
        yield sa.or_(*parts, tags.icontains(json.dumps(criteria.text, ensure_ascii=False)[1:-1], autoescape=True))
    if criteria.tag is not None:
        yield columns.tags.icontains(json.dumps(criteria.tag, ensure_ascii=False), autoescape=True)
    if criteria.model is not None:
        yield columns.model_sha256.startswith(criteria.model.lower(), autoescape=True)
    for column, compare, value in (
        (columns.toolchain, operator.eq, criteria.toolchain),
        (columns.platform, operator.eq, criteria.platform),
        (columns.verdict, operator.eq, criteria.verdict),
        (columns.is_kept, operator.eq, criteria.is_kept),
        (columns.snr_db, operator.ge, criteria.snr_min_db),
        (columns.snr_db, operator.le, criteria.snr_max_db),
        (columns.finished_at, operator.ge, criteria.since),
        (columns.finished_at, operator.lt, criteria.until),
    ):
        if value is not None:
            yield compare(column, value)


def _build_row(row: Row[Any]) -> ArchivedJobRow:
    return ArchivedJobRow(**{**row._mapping, "tags": tuple(json.loads(row.tags))})
