"""Whose services the Kubernetes-shaped API shows, where accounts are demanded: over HTTP, and to kubectl itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.harness.deployment import Deployment
from tests.harness.kubectl import NAME, kubectl_of
from tests.harness.kubernetes import EVERYWHERE, SAMPLE, changes, further_web, kubeconfig, path, put, sample
from tests.harness.users import person


def test_no_list_and_no_watch_shows_anothers_service_and_a_name_is_an_owners(shared: Deployment) -> None:
    with person(shared, "kate").api() as hers, person(shared, "liam").api() as his:
        put(hers.http, sample("secret"), "shop")
        assert his.http.get(EVERYWHERE).json()["items"] == []
        assert "shop" not in his.http.get("/api/v1/namespaces").text
        query = {"fieldSelector": "involvedObject.name=secret"}
        assert his.http.get("/api/v1/namespaces/shop/events", params=query).json()["items"] == []
        with changes(his.http, EVERYWHERE, timeoutSeconds="1") as lines:
            assert list(lines) == []
        put(his.http, sample("secret"), "shop")
        assert len(hers.http.get(path(namespace="shop")).json()["items"]) == 1


@pytest.mark.slow
def test_a_watch_ends_when_its_token_is_revoked(shared: Deployment) -> None:
    with person(shared, "watcher").api() as watcher:
        tokens = watcher.http.get("/api/v2/me/tokens").json()["tokens"]
        with changes(watcher.http, EVERYWHERE, sendInitialEvents="true") as lines:
            assert next(lines)["type"] == "BOOKMARK"
            watcher.http.delete(f"/api/v2/me/tokens/{tokens[0]['token_id']}")
            assert list(lines) == []


# --- kubectl ---


@pytest.fixture(scope="module")
def secure(kubectl_program: str, shared: Deployment, tmp_path_factory: pytest.TempPathFactory) -> str:
    """URL of the service by TLS: over plain HTTP kubectl sends no token."""
    folder = tmp_path_factory.mktemp("certificate")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=127.0.0.1",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        check=True,
        capture_output=True,
    )
    _, port = further_web(shared, "--ssl-keyfile", str(key), "--ssl-certfile", str(certificate))
    return f"https://127.0.0.1:{port}"


def test_each_user_has_services_of_their_own(
    kubectl_program: str, shared: Deployment, secure: str, tmp_path: Path
) -> None:
    users = {}
    for name in ("nora", "omar"):
        folder = tmp_path / name
        folder.mkdir()
        users[name] = kubectl_of(kubectl_program, folder, kubeconfig(folder, secure, token=person(shared, name).token))
    nora, omar = users["nora"], users["omar"]
    nora("create", "-n", "hers", "-f", _in(tmp_path, "hers"))
    assert "NotFound" in omar("get", "jis", NAME, "-n", "hers", fails=True).stderr
    assert NAME not in omar("get", "jis", "-A").stdout
    assert NAME in nora("get", "jis", "-A").stdout


def _in(folder: Path, namespace: str) -> Path:
    file = folder / "sample.yaml"
    file.write_text(SAMPLE.read_text().replace("namespace: default", f"namespace: {namespace}"))
    return file
