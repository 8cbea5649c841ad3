"""A lease in SQL, which survives a restart of Redis."""

from __future__ import annotations

import uuid
from datetime import timedelta

import sqlalchemy as sa

from app.kit.clock import now, to_text
from app.kit.sql import Database, metadata
from app.kit.sql.rows import insert_into

leases = sa.Table(
    "turns",
    metadata,
    sa.Column("subject", sa.String(32), primary_key=True),
    sa.Column("holder", sa.String(32), nullable=False),
    sa.Column("until", sa.String(32), nullable=False),
)


class SqlLease:
    """An `app.kit.lease.Lease`. Every method may raise DatabaseUnavailable."""

    def __init__(self, database: Database, name: str, *, ttl_s: float) -> None:
        self.name = name
        self.ttl_s = ttl_s
        self.holder = uuid.uuid4().hex
        self._database = database

    def take(self) -> bool:
        """True: it was free, or already ours."""
        moment = now()
        until = to_text(moment + timedelta(seconds=self.ttl_s))
        is_free = sa.or_(leases.c.until < to_text(moment), leases.c.holder == self.holder)
        with self._database.write() as conn:
            insert = insert_into(conn, leases).values(subject=self.name, holder=self.holder, until=until)
            taken = insert.on_conflict_do_update(
                index_elements=["subject"], set_={"holder": self.holder, "until": until}, where=is_free
            )
            return conn.execute(taken.returning(leases.c.subject)).first() is not None

    def release(self) -> None:
        """Releases it unless another holder has it."""
        ours = (leases.c.subject == self.name, leases.c.holder == self.holder)
        with self._database.write() as conn:
            conn.execute(sa.delete(leases).where(*ours))
