"""The newest hard samples of services."""

from __future__ import annotations

import json

import sqlalchemy as sa
from sqlalchemy import Connection

from app.joint_inference.model.tally import Sample
from app.joint_inference.store.tables import samples


def put_sample(conn: Connection, uid: str, sample: Sample, content_type: str, *, at: str, keep: int) -> list[str]:
    """Store a sample; the same again replaces the first.

    Args:
        at: when it came, by our own clock: an edge's, once it was wrong, would hold its newest back for as long.
        keep: how many of the service stay.

    Returns:
        Ids of those that were removed for it.
    """
    of_service = samples.c.uid == uid
    conn.execute(sa.delete(samples).where(of_service, samples.c.sample_id == sample.id))
    conn.execute(
        sa.insert(samples).values(
            uid=uid, sample_id=sample.id, at=at, sample=json.dumps(sample.to_json()), content_type=content_type
        )
    )
    newest = sa.select(samples.c.sample_id).where(of_service).order_by(samples.c.at.desc(), samples.c.sample_id.desc())
    too_many = list(conn.execute(newest.offset(keep)).scalars())
    conn.execute(sa.delete(samples).where(of_service, samples.c.sample_id.in_(too_many)))
    return too_many


def samples_of(conn: Connection, uid: str) -> list[Sample]:
    """Newest first."""
    query = sa.select(samples.c.sample).where(samples.c.uid == uid)
    texts = conn.execute(query.order_by(samples.c.at.desc(), samples.c.sample_id.desc())).scalars()
    return [Sample.from_json(json.loads(text)) for text in texts]


def content_type_of(conn: Connection, uid: str, sample_id: str) -> str | None:
    query = sa.select(samples.c.content_type).where(samples.c.uid == uid, samples.c.sample_id == sample_id)
    return conn.execute(query).scalar()
