"""The certificates that were issued to nodes, in SQL. Everything runs in the caller's transactions."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import Connection

from app.kit.sql import metadata
from app.nodes.store import NODE, TIME

certificates = sa.Table(
    "node_certificates",
    metadata,
    sa.Column("serial", sa.String(40), primary_key=True),
    sa.Column("node", NODE, nullable=False),
    sa.Column("expires_at", TIME, nullable=False),
    sa.Column("revoked_at", TIME),
    sa.Index("ix_node_certificates_node", "node"),
)
"""The certificates that were issued to nodes and have not expired. `serial`: in hexadecimal digits."""


def add(conn: Connection, serial: str, node: str, expires_at: str) -> None:
    """Records an issued certificate.

    Args:
        conn: the caller's transaction.
        serial: in hexadecimal digits.
        node: the node of the certificate.
        expires_at: when it may be forgotten.
    """
    conn.execute(sa.insert(certificates).values(serial=serial, node=node, expires_at=expires_at))


def revoke(conn: Connection, node: str, at: str) -> None:
    """Revokes all certificates of this node."""
    is_valid = (certificates.c.node == node) & certificates.c.revoked_at.is_(None)
    conn.execute(sa.update(certificates).where(is_valid).values(revoked_at=at))


def list_revoked(conn: Connection) -> list[tuple[str, str]]:
    """Returns the serial of each revoked certificate, and when it was revoked."""
    query = sa.select(certificates.c.serial, certificates.c.revoked_at).where(certificates.c.revoked_at.is_not(None))
    return [(row.serial, row.revoked_at) for row in conn.execute(query)]


def forget(conn: Connection, *, expired_at: str) -> None:
    conn.execute(sa.delete(certificates).where(certificates.c.expires_at < expired_at))
