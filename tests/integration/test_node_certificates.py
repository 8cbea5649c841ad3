"""The certificates of nodes: issued to the node that asks, revoked when it is replaced or removed."""

from __future__ import annotations

from datetime import timedelta

import pytest

from app.bootstrap.container import Container
from app.kit.clock import from_text, now
from app.kit.network.tls import tls_name
from app.kit.signatures.certificates import facts_of, is_issued_by, is_revoked, new_request
from app.kit.sql.errors import SecretKeyNotSet
from app.nodes.model import Side
from app.nodes.service.certificates import LIFETIME, BadCertificateRequest, Certificates


def issued(container: Container, node: str) -> str:
    return container.nodes.certificates.issue(node, new_request().request, now=now()).certificate


def test_a_node_that_is_replaced_or_removed_loses_its_certificates_and_no_other_does(container: Container) -> None:
    nodes = container.nodes
    for name in ("edge0", "cloud0"):
        nodes.register(name, Side.EDGE, now=now())
    old, other = issued(container, "edge0"), issued(container, "cloud0")
    before = nodes.certificates.authorities()
    assert before == nodes.certificates.authorities(), "it is read again and again, and means nothing new"
    nodes.register("edge0", Side.EDGE, now=now(), replace=True)
    new, after = issued(container, "edge0"), nodes.certificates.authorities()
    assert [is_revoked(pem, after) for pem in (old, other, new)] == [True, False, False]
    nodes.remove("edge0")
    assert [is_revoked(pem, nodes.certificates.authorities()) for pem in (old, other, new)] == [True, False, True]


def test_it_is_for_the_node_that_asks_and_for_a_while(container: Container) -> None:
    moment = now()
    answer = container.nodes.certificates.issue("edge0", new_request().request, now=moment)
    facts = facts_of(answer.certificate)
    assert facts.names == (tls_name("edge0"),)
    assert facts.expires_at == from_text(answer.expires_at) == moment.replace(microsecond=0) + LIFETIME
    assert is_issued_by(answer.certificate, container.nodes.certificates.authorities())
    with pytest.raises(BadCertificateRequest):
        container.nodes.certificates.issue("edge0", "nothing", now=moment)


def test_what_has_expired_is_forgotten(container: Container) -> None:
    container.nodes.register("edge0", Side.EDGE, now=now())
    pem = issued(container, "edge0")
    container.nodes.register("edge0", Side.EDGE, now=now(), replace=True)
    container.nodes.certificates.issue("edge0", new_request().request, now=now() + LIFETIME + timedelta(days=1))
    assert not is_revoked(pem, container.nodes.certificates.authorities())


def test_without_a_secret_key_there_is_no_authority(container: Container) -> None:
    with pytest.raises(SecretKeyNotSet):
        Certificates(container.database, "").authorities()


def test_the_web_server_calls_with_a_certificate_of_its_own(container: Container) -> None:
    moment = now()
    context = container.nodes.certificates.own_context(now=moment)
    assert context is container.nodes.certificates.own_context(now=moment)
    assert context is not container.nodes.certificates.own_context(now=moment + timedelta(hours=1))
