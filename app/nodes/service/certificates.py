"""The certificates of nodes: issued when a node joins and before one expires, revoked when the node is replaced or
removed."""

from __future__ import annotations

import secrets
import ssl
import tempfile
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection

from app.kit.clock import from_text, to_text
from app.kit.errors import BadInput
from app.kit.files import write_whole
from app.kit.network.tls import AUTHORITIES, CERTIFICATE, DOMAIN, KEY, Credentials, tls_name
from app.kit.signatures.certificates import BadCertificate, CertificateAuthority, new_request
from app.kit.sql import Database
from app.kit.sql.errors import SecretKeyNotSet
from app.nodes import certificate_store

LIFETIME = timedelta(days=30)
BEFORE = timedelta(minutes=5)
"""Clocks of nodes may be slow."""
OWN_LIFETIME = timedelta(hours=1)
OWN_RENEWED = timedelta(minutes=1)
"""So soon it knows what was revoked."""
WEB = f"web.control.{DOMAIN.partition('.')[2]}"
"""The name of the web server: no node can have it."""


class BadCertificateRequest(BadInput, code="BAD_CERTIFICATE_REQUEST"): ...


@dataclass(frozen=True)
class IssuedCertificate:
    """What a node gets."""

    certificate: str
    """PEM."""
    expires_at: str


class Certificates:
    """The installation's certificate authority.

    Args:
        database: where it is kept what was issued, and revoked.
        secret: the installation's secret key.
    """

    def __init__(self, database: Database, secret: str) -> None:
        self.database = database
        self._secret = secret
        self._own: tuple[datetime, ssl.SSLContext] | None = None

    @cached_property
    def _authority(self) -> CertificateAuthority:
        """Needs a secret: without one, everybody could derive the key of the authority."""
        if not self._secret:
            raise SecretKeyNotSet
        return CertificateAuthority(self._secret)

    def issue(self, node: str, request: str, *, now: datetime) -> IssuedCertificate:
        """A certificate for a node.

        Args:
            node: its name.
            request: PEM, signed with the key that the node keeps for itself.
            now: the time.

        Raises:
            BadCertificateRequest: It cannot be read, or is not signed with its own key.
        """
        until, serial = now.replace(microsecond=0) + LIFETIME, secrets.randbits(152) | 1
        try:
            pem = self._authority.issue(request, tls_name(node), serial=serial, now=now - BEFORE, until=until)
        except BadCertificate as error:
            raise BadCertificateRequest(f"A certificate cannot be issued: {error}.") from error
        with self.database.write() as conn:
            certificate_store.forget(conn, expired_at=to_text(now))
            certificate_store.add(conn, f"{serial:x}", node, to_text(until))
        return IssuedCertificate(pem, to_text(until))

    def authorities(self) -> str:
        """The authority's own certificate and its list of revoked ones, PEM; the same text until one is revoked."""
        with self.database.read() as conn:
            revoked = [(int(serial, 16), from_text(at)) for serial, at in certificate_store.list_revoked(conn)]
        return self._authority.certificate + self._authority.revocations(revoked)

    def revoke(self, conn: Connection, node: str, *, now: datetime) -> None:
        """All of a node, in the caller's transaction. A list of revocations has a time in whole seconds, by which its
        readers know that it is a newer one."""
        latest = max(
            [from_text(at) for _, at in certificate_store.list_revoked(conn)],
            default=now - timedelta(seconds=1),
        )
        at = max(now.replace(microsecond=0), latest + timedelta(seconds=1))
        certificate_store.revoke(conn, node, to_text(at))

    def own_context(self, *, now: datetime) -> ssl.SSLContext:
        """With which the web server calls nodes: its own certificate, which is renewed in time and kept in memory."""
        if self._own is None or now >= self._own[0]:
            until = now.replace(microsecond=0) + OWN_LIFETIME
            request = new_request()
            own = self._authority.issue(request.request, WEB, serial=2, now=now - BEFORE, until=until)
            with tempfile.TemporaryDirectory() as folder:
                for name, text in ((KEY, request.key), (CERTIFICATE, own), (AUTHORITIES, self.authorities())):
                    write_whole(Path(folder) / name, text)
                context = Credentials.of(Path(folder)).client
            self._own = now + OWN_RENEWED, context
        return self._own[1]
