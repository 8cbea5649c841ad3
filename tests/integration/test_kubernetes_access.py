"""Whose services the Kubernetes-shaped API shows, where accounts are demanded: over HTTP, and to kubectl itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

import httpx
import pytest

from app.accounts.model import Scope
from tests.harness.deployment import Deployment
from tests.harness.kubectl import NAME, kubectl_of
from tests.harness.kubernetes import (
    EVERYWHERE,
    MERGE,
    SAMPLE,
    changes,
    further_web,
    kubeconfig,
    path,
    put,
    refusal,
    sample,
)
from tests.harness.users import person


def test_anothers_service_is_as_if_there_were_none(shared: Deployment) -> None:
    with person(shared, "kate").api() as hers, person(shared, "liam").api() as his:
        put(hers.http, sample("secret"), "shop")
        for answer in (
            his.http.get(path("secret", "shop")),
            his.http.delete(path("secret", "shop")),
            his.http.put(path("secret", "shop"), json=sample("secret")),
            his.http.patch(path("secret", "shop"), json={}, headers=MERGE),
            his.http.put(f"{path('secret', 'shop')}/status", json=sample("secret")),
        ):
            refusal(answer, 404, "NotFound")
        assert his.http.get(EVERYWHERE).json()["items"] == []
        assert "shop" not in his.http.get("/api/v1/namespaces").text
        query = {"fieldSelector": "involvedObject.name=secret"}
        assert his.http.get("/api/v1/namespaces/shop/events", params=query).json()["items"] == []
        with changes(his.http, EVERYWHERE, timeoutSeconds="1") as lines:
            assert list(lines) == []
        put(his.http, sample("secret"), "shop")  # a name is an owner's
        assert len(hers.http.get(path(namespace="shop")).json()["items"]) == 1


def test_without_a_token_there_is_nothing(shared: Deployment, stranger: httpx.Client) -> None:
    assert stranger.get(EVERYWHERE).status_code == 401
    assert stranger.get("/apis").status_code == 401


def test_a_token_that_may_only_read_cannot_write(shared: Deployment) -> None:
    with person(shared, "reader", scopes=[Scope.READ]).api() as reader:
        assert reader.http.post(path(), json=sample("one")).status_code == 403
        assert reader.http.get(EVERYWHERE).status_code == 200


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


def test_a_token_that_may_only_read_creates_nothing(
    kubectl_program: str, shared: Deployment, secure: str, tmp_path: Path
) -> None:
    token = person(shared, "reader", scopes=[Scope.READ]).token
    reader = kubectl_of(kubectl_program, tmp_path, kubeconfig(tmp_path, secure, token=token))
    assert "Forbidden" in reader("create", "-f", SAMPLE, fails=True).stderr
    assert "No resources found" in reader("get", "jis").stderr


def _in(folder: Path, namespace: str) -> Path:
    file = folder / "sample.yaml"
    file.write_text(SAMPLE.read_text().replace("namespace: default", f"namespace: {namespace}"))
    return file
