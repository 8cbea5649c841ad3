"""Stages over encrypted links: a host as a process that asks for certificates, and the client of runners."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from app.edge.video.runner import stage_client
from app.edge.video.runner.stage_client import HostAway, StageClient
from app.edge.video.work import ServicesWork
from app.kit.files import write_whole
from app.kit.network.tls import AUTHORITIES, CERTIFICATE, KEY, Credentials, tls_name
from app.kit.signatures.certificates import CertificateAuthority, new_request
from app.video.model.job import StageHost
from app.video.model.stage_call import RAW, Call, Encoded
from tests.harness.paths import SHARED_DATA
from tests.harness.until import PATIENCE_S, until
from tests.harness.video.stage_host import SECRET, VideoHost, stage_of

pytestmark = pytest.mark.skipif(not SHARED_DATA.is_dir(), reason="there is no folder of test models")
OURS = CertificateAuthority("ours")


def files_of(folder: Path, node: str, *, serial: int, authority: CertificateAuthority = OURS) -> tuple[str, ...]:
    """Writes what an agent keeps of its node, and returns the paths."""
    request, now = new_request(), datetime.now(UTC)
    pem = authority.issue(
        request.request, tls_name(node), serial=serial, now=now - timedelta(hours=1), until=now + timedelta(days=1)
    )
    files = (folder / KEY, folder / CERTIFICATE, folder / AUTHORITIES)
    for file, text in zip(files, (request.key, pem, authority.certificate + authority.revocations(())), strict=True):
        write_whole(file, text)
    return tuple(str(file) for file in files)


@dataclass
class EncryptedHost(VideoHost):
    tls: tuple[str, ...] = ()
    caller: tuple[str, ...] = ()

    @property
    def address(self) -> StageHost:
        return StageHost(self.node, "cloud", "127.0.0.1", self.url.replace("http:", "https:"), SECRET)

    def work(self, **more: Any) -> ServicesWork:
        return super().work(tls=self.tls, is_encrypted=True, **more)

    def is_up(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()
        client = StageClient(self.caller)
        try:
            return client.is_there(self.address)
        finally:
            client.close()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EncryptedHost]:
    folder = tmp_path_factory.mktemp("encrypted")
    stage, files = stage_of("kind", "classification", [SHARED_DATA / "models/cls_mobilenet_v2_128_dynamic_batch.onnx"])
    tls, caller = (files_of(folder / node, node, serial=n) for n, node in ((1, "edge-1"), (2, "edge-2")))
    made = EncryptedHost(
        folder / "host", {"kind": stage}, files, agent_url="http://127.0.0.1:9", tls=tls, caller=caller
    )
    yield made
    made.close()


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host may need longer than two seconds to agree on the encryption, on a busy machine."""
    monkeypatch.setattr(stage_client, "CONNECT_S", 60.0)


def call_of() -> Call:
    picture = np.full((64, 64, 3), 90, np.uint8)
    return Call("kind", pictures={"image": (Encoded(picture.tobytes(), f"{RAW};width=64;height=64"),)})


def test_a_runner_of_another_node_calls_a_stage_by_an_encrypted_link(host: EncryptedHost) -> None:
    client = StageClient(host.caller)
    try:
        answers = [client.call(host.address, call_of(), 60).outputs for _ in range(2)]
    finally:
        client.close()
    assert answers[0]["label"] == answers[1]["label"] and answers[0]["prob"] == answers[1]["prob"]


def test_who_has_no_certificate_or_a_strangers_gets_no_answer(host: EncryptedHost, tmp_path: Path) -> None:
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{host.url}/healthz", trust_env=False)
    strangers = files_of(tmp_path / "stranger", "edge-2", serial=3, authority=CertificateAuthority("theirs"))
    for tls in ((), strangers):
        client = StageClient(tls)
        with pytest.raises(HostAway):
            client.call(host.address, call_of(), 10)
        client.close()


def test_a_host_that_is_not_the_node_it_is_called_for_is_not_called(host: EncryptedHost) -> None:
    client = StageClient(host.caller)
    other = StageHost("edge-9", "cloud", "127.0.0.1", host.address.url, SECRET)
    with pytest.raises(HostAway, match="certificate verify failed"):
        client.call(other, call_of(), 10)
    client.close()


def test_a_certificate_that_was_replaced_is_shown_without_a_restart(host: EncryptedHost) -> None:
    """The host's own, as when an agent renews it."""

    def shown() -> bytes:
        credentials = Credentials(*map(Path, host.caller))
        with (
            socket.create_connection(("127.0.0.1", host.port), timeout=PATIENCE_S) as plain,
            credentials.client.wrap_socket(plain, server_hostname=tls_name(host.node)) as encrypted,
        ):
            return encrypted.getpeercert(binary_form=True) or b""

    before = shown()
    assert before
    files_of(Path(host.tls[0]).parent, host.node, serial=7)
    until(lambda: shown() != before)
    client = StageClient(host.caller)
    assert client.call(host.address, call_of(), 60).outputs["label"]
    client.close()
