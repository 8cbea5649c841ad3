"""The certificate of a node over time: given files that are replaced, and what the installation issues and revokes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from app.edge.agent.certificates import NodeCertificate
from app.edge.agent.options import AgentOptions
from app.edge.agent.web_client import WebClient
from app.kit.cli.command import CannotStart, Unreachable
from app.kit.clock import to_text
from app.kit.files import write_whole
from app.kit.network.tls import AUTHORITIES, CERTIFICATE, KEY, tls_name
from app.kit.signatures.certificates import CertificateAuthority, new_request
from app.nodes.model import Issuer, Side, TlsMode
from tests.harness.until import until_async

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)


class Installation:
    """What the web server answers an agent.

    Args:
        until: when what it issues expires.
    """

    def __init__(self, until: datetime = NOW + 30 * DAY) -> None:
        self.authority = CertificateAuthority("ours")
        self.since, self.until = NOW - timedelta(hours=1), until
        self.revoked: tuple[tuple[int, datetime], ...] = ()
        self.is_reachable = True
        self.issued = 0

    async def authorities(self) -> str:
        self._require_reachable()
        return self.authority.certificate + self.authority.revocations(self.revoked)

    async def certify(self, request: str) -> str:
        self._require_reachable()
        self.issued += 1
        return self.authority.issue(request, tls_name("edge0"), serial=self.issued, now=self.since, until=self.until)

    def _require_reachable(self) -> None:
        if not self.is_reachable:
            raise Unreachable("the web server is away")


def certificate_of(folder: Path, web: Installation, **options: Any) -> NodeCertificate:
    given = {"tls": TlsMode.REQUIRED, **options}
    return NodeCertificate(AgentOptions("edge0", Side.EDGE, "http://w", folder, **given), cast(WebClient, web))


def give(folder: Path, *, name: str = "edge0", until: datetime = NOW + DAY) -> tuple[Path, Path, Path]:
    """Writes files as an administrator would."""
    authority, request = CertificateAuthority("theirs"), new_request()
    pem = authority.issue(request.request, tls_name(name), serial=9, now=NOW - DAY, until=until)
    files = (folder / KEY, folder / CERTIFICATE, folder / AUTHORITIES)
    for file, text in zip(files, (request.key, pem, authority.certificate + authority.revocations(())), strict=True):
        write_whole(file, text)
    return files


def test_given_files_are_used_and_read_again_when_they_are_replaced(tmp_path: Path) -> None:
    web = Installation()
    certificate = certificate_of(tmp_path, web, tls_files=give(tmp_path / "given"))
    credentials = certificate.credentials
    assert credentials is not None
    assert (certificate.report.issuer, certificate.report.expires_at) == (Issuer.GIVEN, to_text(NOW + DAY))
    give(tmp_path / "given", until=NOW + 9 * DAY)
    asyncio.run(certificate.look())
    assert certificate.report.expires_at == to_text(NOW + 9 * DAY)
    assert certificate.credentials is credentials, "its contexts are those that open servers have"
    assert web.issued == 0, "the installation is not asked"


def test_given_files_of_another_node_or_none_do_not_start_an_agent(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"is not for edge0\.nodes\.modelmill"):
        certificate_of(tmp_path, Installation(), tls_files=give(tmp_path / "other", name="cloud0"))
    missing = tuple(tmp_path / name for name in (KEY, CERTIFICATE, AUTHORITIES))
    with pytest.raises(CannotStart, match="cannot be used"):
        certificate_of(tmp_path, Installation(), tls_files=missing)


def test_given_files_that_break_later_are_reported_and_the_former_stay_in_use(tmp_path: Path) -> None:
    files = give(tmp_path / "given")
    certificate = certificate_of(tmp_path, Installation(), tls_files=files)
    write_whole(files[1], "nothing")
    asyncio.run(certificate.look())
    assert certificate.report.problem
    assert certificate.tls.credentials is not None and certificate.is_serving
    give(tmp_path / "given", until=NOW + 5 * DAY)
    asyncio.run(certificate.look())
    assert (certificate.report.problem, certificate.report.expires_at) == ("", to_text(NOW + 5 * DAY))


def test_a_certificate_is_renewed_when_two_thirds_of_its_time_are_over_and_not_before(tmp_path: Path) -> None:
    web = Installation()
    certificate = certificate_of(tmp_path, web)
    for _ in range(2):
        asyncio.run(certificate.look())
    assert (web.issued, certificate.report.issuer) == (1, Issuer.INSTALLATION)
    # An agent that starts with what it has kept: an hour and a half in all, an hour of it is over.
    web.until = NOW + timedelta(minutes=29)
    (tmp_path / "tls" / CERTIFICATE).unlink()
    asyncio.run(certificate_of(tmp_path, web).look())
    web.until = NOW + 30 * DAY
    again = certificate_of(tmp_path, web)
    asyncio.run(again.look())
    assert (web.issued, again.report.expires_at) == (3, to_text(NOW + 30 * DAY))


def test_a_revoked_certificate_is_replaced_as_soon_as_that_is_known(tmp_path: Path) -> None:
    web = Installation()
    certificate = certificate_of(tmp_path, web)
    asyncio.run(certificate.look())
    web.revoked = ((1, NOW),)
    asyncio.run(certificate.look())
    assert (web.issued, certificate.report.problem) == (2, "")


def test_while_the_web_is_away_a_node_goes_on_with_what_it_has(tmp_path: Path) -> None:
    web = Installation()
    certificate = certificate_of(tmp_path, web)
    asyncio.run(certificate.look())
    web.is_reachable = False
    asyncio.run(certificate.look())
    assert "away" in certificate.report.problem
    assert certificate.is_serving and certificate.credentials is not None
    kept = certificate_of(tmp_path, web)
    assert (kept.report.issuer, kept.credentials is not None) == (Issuer.INSTALLATION, True), "after a restart, too"


def test_the_loop_looks_at_once_when_the_node_has_registered_itself_again(tmp_path: Path) -> None:
    web, changes = Installation(), list[bool]()

    async def scenario() -> None:
        certificate = certificate_of(tmp_path, web)
        looping = asyncio.create_task(certificate.run(lambda: changes.append(certificate.credentials is not None)))
        await until_async(lambda: web.issued >= 1 and changes)
        web.revoked = ((1, NOW),)
        certificate.look_soon()
        await until_async(lambda: web.issued >= 2)
        looping.cancel()
        await asyncio.gather(looping, return_exceptions=True)

    asyncio.run(scenario())
    assert changes == [True], "workers start again for the first certificate, not for its successors"
