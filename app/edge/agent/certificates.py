"""The certificate of a node: issued by the installation when the node joins and renewed in time, or given to the agent.

The key never leaves the machine. Workers read the files again when they are replaced.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC
from http import HTTPStatus
from pathlib import Path

from app.edge.agent.driver import NodeTls
from app.edge.agent.options import AgentOptions
from app.edge.agent.web_client import WebClient
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import CannotStart, Unreachable
from app.kit.clock import now, to_text
from app.kit.files import write_whole
from app.kit.network.addresses import is_loopback
from app.kit.network.tls import AUTHORITIES, CERTIFICATE, KEY, Credentials, tls_name
from app.kit.signatures.certificates import (
    BadCertificate,
    CertificateFacts,
    facts_of,
    is_issued_by,
    is_revoked,
    new_request,
)
from app.nodes.model import Issuer, TlsMode, TlsReport

LOOK_S = 30.0
"""How often the agent fetches revocations, and looks whether the certificate is to be renewed."""
RENEWED_AT = 2 / 3
"""Of its lifetime."""
NO_ISSUER = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED)
"""A web server of an older version."""
logger = logging.getLogger(__name__)


class NodeCertificate:
    """The certificate of this node.

    Attributes:
        credentials: for links to other nodes; None: there is no certificate.
        report: what the node tells of it.
    """

    def __init__(self, options: AgentOptions, web: WebClient) -> None:
        """Reads what is there already.

        Raises:
            CannotStart: Given files cannot be used.
        """
        self._options, self._web = options, web
        self._folder = options.data / "tls"
        self._due = asyncio.Event()
        self.credentials: Credentials | None = None
        self.report = TlsReport(options.tls)
        if options.tls is TlsMode.OFF:
            return
        if options.tls_files:
            self._use_given()
        elif (self._folder / CERTIFICATE).exists():
            try:
                self._use()
            except (OSError, ssl.SSLError, BadCertificate) as error:
                logger.warning("The certificate in %s cannot be used, and is replaced: %s", self._folder, error)

    @property
    def tls(self) -> NodeTls:
        """For workers."""
        return NodeTls(self.credentials, self.is_serving, self._options.tls is TlsMode.REQUIRED)

    @property
    def is_serving(self) -> bool:
        """Whether workers that other nodes call accept encrypted connections only."""
        mode = self._options.tls
        if mode is TlsMode.AUTO:
            return self.credentials is not None and not is_loopback(self._options.bind)
        return mode is TlsMode.REQUIRED

    async def run(self, on_change: Callable[[], None]) -> None:
        """For ever. on_change: called when workers are to be started with other settings."""
        while True:
            former = self.tls
            await self.look()
            if self.tls != former:
                on_change()
            self._due.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._due.wait()

    def look_soon(self) -> None:
        """The node has registered itself again: its certificate is revoked."""
        self._due.set()

    async def look(self) -> None:
        """Renew what has to be renewed. A web server that cannot be reached is asked again later."""
        if self._options.tls is TlsMode.OFF:
            return
        try:
            if not self._options.tls_files:
                await self._fetch()
            elif self.credentials is not None and self.credentials.refresh():
                self._use_given()
        except (Unreachable, ApiError, CannotStart, OSError, ssl.SSLError, BadCertificate) as error:
            if isinstance(error, ApiError) and error.status in NO_ISSUER:
                error = BadCertificate("the web server is of a version that issues none")
            problem = str(error) or type(error).__name__
            if problem != self.report.problem and not isinstance(error, Unreachable):  # which the registration says
                logger.warning("This node has no new certificate: %s", problem)
            self.report = replace(self.report, problem=problem[:300], is_serving=self.is_serving)

    async def _fetch(self) -> None:
        authorities = await self._web.authorities()
        certificate = _read_text(self._folder / CERTIFICATE)
        if self.credentials is None or await asyncio.to_thread(_is_due, certificate, authorities):
            request = await asyncio.to_thread(new_request)
            certificate = await self._web.certify(request.request)
            write_whole(self._folder / KEY, request.key)
            write_whole(self._folder / CERTIFICATE, certificate)
        if authorities != _read_text(self._folder / AUTHORITIES):
            write_whole(self._folder / AUTHORITIES, authorities)
        self._use()

    def _use(self) -> None:
        if self.credentials is None:
            self.credentials = Credentials.of(self._folder)
        else:
            self.credentials.refresh()
        self._note(Issuer.INSTALLATION, facts_of((self._folder / CERTIFICATE).read_text()))

    def _use_given(self) -> None:
        assert self._options.tls_files
        _, certificate, _ = self._options.tls_files
        name = tls_name(self._options.name)
        try:
            facts = facts_of(certificate.read_text())
            self.credentials = self.credentials or Credentials(*self._options.tls_files)
        except (OSError, ssl.SSLError, BadCertificate) as error:
            raise CannotStart(f"the certificate in {certificate} cannot be used: {error}") from error
        if name not in facts.names:
            raise CannotStart(
                f"the certificate in {certificate} is not for {name}",
                hint="Other nodes recognize this one by that DNS name, as subjectAltName.",
            )
        self._note(Issuer.GIVEN, facts)

    def _note(self, issuer: Issuer, facts: CertificateFacts) -> None:
        self.report = TlsReport(self._options.tls, self.is_serving, issuer, to_text(facts.expires_at))


def _is_due(certificate: str, authorities: str) -> bool:
    """Whether a certificate is to be replaced: most of its time is over, it was revoked when the node was
    registered again, or the authority is another."""
    try:
        facts, is_known = facts_of(certificate), is_issued_by(certificate, authorities)
        is_known = is_known and not is_revoked(certificate, authorities)
    except BadCertificate:
        return True
    lifetime = facts.expires_at - facts.issued_at
    return not is_known or now().astimezone(UTC) >= facts.issued_at + lifetime * RENEWED_AT


def _read_text(path: Path) -> str:
    """Empty for a file that is not there."""
    try:
        return path.read_text()
    except OSError:
        return ""
