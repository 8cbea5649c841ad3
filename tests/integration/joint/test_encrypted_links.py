"""Encrypted links between an edge and a cloud node, with real agents and workers: certificates are issued when they
join."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.joint.deployment import JointDeployment, resource

pytestmark = pytest.mark.slow
NODES = ("tls-edge", "tls-cloud", "clear-cloud")


@pytest.fixture(scope="module")
def deployment(joint: JointDeployment, shared_data: Path) -> Iterator[JointDeployment]:
    """Two nodes that refuse clear text, and one that cannot encrypt."""
    joint.node("tls-edge", "edge", "--tls", "required")
    joint.node("tls-cloud", "cloud", "--tls", "required")
    joint.node("clear-cloud", "cloud", "--tls", "off")
    for name in ("small", "big"):
        content = (shared_data / "models" / f"digits_{name}.onnx").read_bytes()
        joint.add_model(name, content, decoder="classifier")
    yield joint
    joint.remove("private")
    joint.remove_nodes(*NODES)
    joint.remove_models("small", "big")


def service(cloud: str) -> Any:
    return resource("private", edge="tls-edge", cloud=cloud, small="small", big="big", algorithm="CloudOnly")


def node(deployment: JointDeployment, name: str) -> Any:
    return deployment.http.get(f"/neptune/nodes/{name}").json()


def test_hard_samples_travel_encrypted_and_nobody_else_is_answered(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    deployment.apply(service("tls-cloud"))
    deployment.reaches("private", "Running")
    (answer,) = deployment.ask("private", digits[:1])
    assert answer["source"] == "cloud"
    (worker,) = node(deployment, "tls-cloud")["workers"]
    assert worker["is_encrypted"]
    host, _, port = worker["address"].rpartition(":")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://{worker['address']}/private", trust_env=False)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, int(port)), timeout=30) as raw,
        pytest.raises(OSError, match=r"certificate required|closed|reset"),
        context.wrap_socket(raw) as stranger,
    ):
        assert not stranger.recv(100)
        raise ConnectionError("closed")


def test_pages_and_programs_are_told_who_encrypts_and_until_when(deployment: JointDeployment) -> None:
    for name, is_serving in (("tls-cloud", True), ("clear-cloud", False)):
        tls = node(deployment, name)["tls"]
        issuer = "installation" if is_serving else ""
        assert (tls["is_serving"], tls["issuer"], bool(tls["expires_at"])) == (is_serving, issuer, is_serving)
        page = deployment.http.get(f"/ui/nodes/{name}", headers={"Accept": "text/html"}).text
        assert ("Certificate of this installation" in page) is is_serving
        assert ("Not encrypted" in page) is not is_serving


def test_clear_text_is_refused_where_encryption_is_required(deployment: JointDeployment) -> None:
    deployment.apply(service("clear-cloud"))
    deployment.when("private", lambda record: "ClearTextRefused" in str(record))


def test_a_node_that_is_registered_again_gets_a_new_certificate_and_works_on(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    deployment.apply(service("tls-cloud"))
    deployment.reaches("private", "Running")
    file = deployment.deployment.folder / "node-tls-cloud" / "tls" / "certificate.pem"
    before = file.read_text()
    answer = deployment.http.post("/neptune/nodes", json={"name": "tls-cloud", "side": "cloud", "replace": True})
    assert answer.status_code == 201
    agent = deployment.agents["tls-cloud"]
    agent.kill()
    agent.start()  # with the old token: it registers itself again
    deployment.until(file.read_text, lambda text: text != before)

    def source() -> str:
        """Empty while the workers start again with another secret."""
        try:
            return str(deployment.ask("private", digits[:1])[0]["source"])
        except (httpx.TransportError, AssertionError):  # not there, or there with a path that has the former secret
            return ""

    deployment.until(source, lambda source: source == "cloud")
