"""Encrypted links over real sockets: who is recognized, who is refused, and what happens when files are replaced."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from app.kit.files import write_whole
from app.kit.network.tls import AUTHORITIES, CERTIFICATE, KEY, Credentials, tls_name
from app.kit.signatures.certificates import (
    BadCertificate,
    CertificateAuthority,
    facts_of,
    is_issued_by,
    is_revoked,
    new_request,
)
from tests.harness.until import PATIENCE_S

NOW = datetime.now(UTC).replace(microsecond=0)
OURS, THEIRS = CertificateAuthority("ours"), CertificateAuthority("theirs")
DAY = timedelta(days=1)
GREETING = b"hello"


def give(
    folder: Path,
    node: str,
    *,
    serial: int = 7,
    authority: CertificateAuthority = OURS,
    until: datetime = NOW + DAY,
    revoked: tuple[tuple[int, datetime], ...] = (),
) -> Path:
    """Writes the files of a node."""
    request = new_request()
    since = min(NOW, until) - DAY
    certificate = authority.issue(request.request, tls_name(node), serial=serial, now=since, until=until)
    write_whole(folder / KEY, request.key)
    write_whole(folder / CERTIFICATE, certificate)
    write_whole(folder / AUTHORITIES, authority.certificate + authority.revocations(revoked))
    return folder


@contextmanager
def serving(credentials: Credentials) -> Iterator[int]:
    """Greets whoever is admitted, each in a thread, and echoes until they leave."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer(raw: socket.socket) -> None:
        raw.settimeout(PATIENCE_S)
        try:
            with credentials.server.wrap_socket(raw, server_side=True) as connection:
                connection.sendall(GREETING)
                while data := connection.recv(100):
                    connection.sendall(data)
        except OSError:
            raw.close()

    def accept() -> None:
        while True:
            try:
                raw, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(raw,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.close()


def dial(port: int, context: ssl.SSLContext, node: str = "cloud0") -> ssl.SSLSocket:
    """Raises OSError for one that refuses us, or that we refuse."""
    raw = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
    connection = context.wrap_socket(raw, server_hostname=tls_name(node))
    try:
        greeting = connection.recv(100)  # in TLS 1.3, whether the server admits us is in what follows
    except OSError:
        connection.close()
        raise
    if greeting != GREETING:
        connection.close()
        raise ConnectionError("it was closed")
    return connection


@pytest.fixture
def cloud(tmp_path: Path) -> Credentials:
    return Credentials.of(give(tmp_path / "cloud", "cloud0"))


def edge(tmp_path: Path, **how: object) -> ssl.SSLContext:
    return Credentials.of(give(tmp_path / "edge", "edge0", **{"serial": 8, **how})).client  # type: ignore[arg-type]


def test_two_nodes_of_one_installation_recognize_each_other(cloud: Credentials, tmp_path: Path) -> None:
    with serving(cloud) as port, dial(port, edge(tmp_path)) as connection:
        assert connection.version() == "TLSv1.3"
        assert ("DNS", "cloud0.nodes.modelmill") in connection.getpeercert()["subjectAltName"]  # type: ignore[index]


@pytest.mark.slow
def test_of_two_authorities_of_one_name_each_revokes_its_own_certificates(tmp_path: Path) -> None:
    """As while the secret key of an installation is replaced: serials begin again."""
    lists = [OURS.revocations([(7, NOW)]), THEIRS.revocations([(8, NOW)])]
    for number, order in enumerate((lists, lists[::-1])):
        both = OURS.certificate + THEIRS.certificate + "".join(order)
        for authority, serial, revoked in ((OURS, 7, True), (OURS, 8, False), (THEIRS, 8, True), (THEIRS, 7, False)):
            folder = give(tmp_path / f"{number}-{serial}-{revoked}", "edge0", serial=serial, authority=authority)
            assert is_revoked((folder / CERTIFICATE).read_text(), both) is revoked
            cloud = give(tmp_path / f"cloud-{folder.name}", "cloud0", serial=9)
            for one in (cloud, folder):
                write_whole(one / AUTHORITIES, both)
            with serving(Credentials.of(cloud)) as port:
                if revoked:
                    with pytest.raises(OSError, match=r"revoked|closed|reset"):
                        dial(port, Credentials.of(folder).client)
                else:
                    dial(port, Credentials.of(folder).client).close()


def test_certificates_of_another_authority_are_refused_on_both_sides(cloud: Credentials, tmp_path: Path) -> None:
    stranger = give(tmp_path / "stranger", "edge0", authority=THEIRS)
    with serving(cloud) as port:
        with pytest.raises(ssl.SSLCertVerificationError):
            dial(port, Credentials.of(stranger).client)
        write_whole(stranger / AUTHORITIES, OURS.certificate + OURS.revocations(()))
        with pytest.raises(OSError, match=r"unknown ca|closed|reset"):
            dial(port, Credentials.of(stranger).client)


def test_an_expired_certificate_is_refused_on_both_sides(tmp_path: Path) -> None:
    past = NOW - timedelta(hours=1)
    expired = Credentials.of(give(tmp_path / "cloud", "cloud0", until=past))
    with serving(expired) as port, pytest.raises(ssl.SSLCertVerificationError, match="expired"):
        dial(port, edge(tmp_path))
    valid = Credentials.of(give(tmp_path / "cloud", "cloud0"))
    with serving(valid) as port, pytest.raises(OSError, match=r"expired|closed|reset"):
        dial(port, edge(tmp_path, until=past))


def test_another_node_at_the_same_address_is_refused(cloud: Credentials, tmp_path: Path) -> None:
    with serving(cloud) as port, pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        dial(port, edge(tmp_path), "cloud1")


def test_a_caller_without_a_certificate_or_in_clear_text_is_refused(cloud: Credentials, tmp_path: Path) -> None:
    nobody = ssl.create_default_context(cafile=str(give(tmp_path / "nobody", "x") / AUTHORITIES))
    with serving(cloud) as port:
        with pytest.raises(OSError, match=r"certificate required|closed|reset"):
            dial(port, nobody)
        with suppress(ConnectionError), socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as plain:
            plain.sendall(b"POST /x/predict HTTP/1.1\r\n\r\n")
            assert GREETING not in plain.recv(100)


def test_a_revoked_node_is_refused_as_soon_as_the_list_is_there(cloud: Credentials, tmp_path: Path) -> None:
    evicted, other = edge(tmp_path), Credentials.of(give(tmp_path / "other", "edge1", serial=9)).client
    with serving(cloud) as port:
        dial(port, evicted).close()
        for revoked in (((8, NOW),), ((8, NOW), (9, NOW + timedelta(seconds=1)))):
            authorities = OURS.certificate + OURS.revocations(revoked)
            write_whole(cloud.files[2], authorities)
            assert cloud.refresh()
            with pytest.raises(OSError, match=r"revoked|closed|reset"):
                dial(port, evicted)
            if len(revoked) == 1:
                dial(port, other).close()
        with pytest.raises(OSError, match=r"revoked|closed|reset"):
            dial(port, other)


def test_a_server_whose_node_was_replaced_is_refused(cloud: Credentials, tmp_path: Path) -> None:
    with serving(cloud) as port, pytest.raises(ssl.SSLCertVerificationError, match="revoked"):
        dial(port, edge(tmp_path, revoked=((7, NOW),)))


def test_a_new_certificate_is_used_without_a_restart_and_open_links_go_on(cloud: Credentials, tmp_path: Path) -> None:
    client = edge(tmp_path)
    with serving(cloud) as port, dial(port, client) as before:
        assert not cloud.refresh()
        give(cloud.files[0].parent, "cloud0", serial=10)
        assert cloud.refresh()
        with dial(port, client) as after:
            assert before.getpeercert()["serialNumber"] != after.getpeercert()["serialNumber"]  # type: ignore[index]
        before.sendall(b"still here")
        assert before.recv(100) == b"still here"


def test_an_authority_that_is_taken_out_of_the_file_is_no_longer_trusted(tmp_path: Path) -> None:
    ours, theirs = OURS.certificate, THEIRS.certificate
    folders = give(tmp_path / "cloud", "cloud0"), give(tmp_path / "edge", "edge0", authority=THEIRS)
    for folder in folders:
        write_whole(folder / AUTHORITIES, ours + theirs)
    cloud, guest = map(Credentials.of, folders)
    with serving(cloud) as port, dial(port, guest.client) as before:
        write_whole(cloud.files[2], ours)
        assert cloud.refresh()
        with pytest.raises(OSError, match=r"unknown ca|unable to get|closed|reset"):
            dial(port, guest.client)
        before.sendall(b"still here")
        assert before.recv(100) == b"still here"
        write_whole(guest.files[2], theirs)
        assert guest.refresh()
        with pytest.raises(ssl.SSLCertVerificationError):
            dial(port, guest.client)


def test_what_cannot_be_read_leaves_in_use_what_was_there(cloud: Credentials, tmp_path: Path) -> None:
    client = edge(tmp_path)
    with serving(cloud) as port:
        write_whole(cloud.files[1], "nothing")
        with pytest.raises(ssl.SSLError):
            cloud.refresh()
        dial(port, client).close()


def test_the_authority_is_the_same_on_all_web_servers() -> None:
    again = CertificateAuthority("ours")
    assert again.certificate == OURS.certificate != THEIRS.certificate
    assert again.revocations([(8, NOW)]) == OURS.revocations([(8, NOW)])


def test_whose_certificate_it_is(tmp_path: Path) -> None:
    pem = (give(tmp_path, "cloud0") / CERTIFICATE).read_text()
    assert facts_of(pem).names == ("cloud0.nodes.modelmill",)
    assert facts_of(pem).expires_at == NOW + DAY
    assert is_issued_by(pem, OURS.certificate)
    assert not is_issued_by(pem, THEIRS.certificate)
    assert not is_revoked(pem, OURS.certificate + OURS.revocations([(8, NOW)]))
    assert is_revoked(pem, OURS.certificate + OURS.revocations([(7, NOW), (8, NOW)]))


@pytest.mark.parametrize("text", ["", "nothing", "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_and_no_request_is_refused(text: str) -> None:
    with pytest.raises(BadCertificate):
        facts_of(text)
    with pytest.raises(BadCertificate):
        OURS.issue(text, "x", serial=1, now=NOW, until=NOW + DAY)


def test_names_of_nodes_that_no_certificate_could_have() -> None:
    assert ".." not in tls_name("a..b")
    assert tls_name("a..b") != tls_name("a.b")
