"""The Kubernetes-shaped API as its clients use it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from app.joint_inference.documents import parse_document
from tests.harness.deployment import Deployment, Process
from tests.harness.paths import REPOSITORY
from tests.harness.ports import free_port
from tests.harness.until import until

SAMPLE = REPOSITORY / "ops" / "samples" / "helmet" / "service.yaml"
GROUP = "/apis/neptune.io/v1alpha1"
EVERYWHERE = f"{GROUP}/jointinferenceservices"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}


def sample(name: str = "helmet-detection-demo", namespace: str | None = None, **metadata: Any) -> dict[str, Any]:
    resource: dict[str, Any] = parse_document(SAMPLE.read_bytes())
    resource["metadata"] = {"name": name, **({"namespace": namespace} if namespace else {}), **metadata}
    return resource


def path(name: str = "", namespace: str = "default") -> str:
    return f"{GROUP}/namespaces/{namespace}/jointinferenceservices" + (f"/{name}" if name else "")


def without_resources(client: httpx.Client) -> None:
    """Nothing of anybody's is left."""
    for item in client.get(EVERYWHERE).json()["items"]:
        client.delete(path(item["metadata"]["name"], item["metadata"]["namespace"]))
    until(lambda: client.get(EVERYWHERE).json()["items"], lambda items: not items)


def put(client: httpx.Client, resource: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    answer = client.post(path(namespace=namespace), json=resource)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def refusal(answer: httpx.Response, status: int, reason: str) -> dict[str, Any]:
    body = answer.json()
    assert (answer.status_code, body["kind"], body["reason"], body["code"]) == (status, "Status", reason, status)
    assert body["status"] == "Failure"
    return dict(body)


@contextmanager
def changes(client: httpx.Client, url: str, **query: str) -> Iterator[Iterator[dict[str, Any]]]:
    """The lines of a watch."""
    with client.stream("GET", url, params={"watch": "true", **query}) as answer:
        assert answer.status_code == 200, answer.read()
        yield (json.loads(line) for line in answer.iter_lines())


def further_web(deployment: Deployment, *options: str) -> tuple[Process, int]:
    """One more web process of the same service, and its port."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "app.main:create_app", "--factory", "--no-access-log"]
    process = deployment.start([*command, "--port", str(port), *options])
    scheme = "https" if options else "http"

    def answers() -> bool:
        try:
            return httpx.get(f"{scheme}://127.0.0.1:{port}/readyz", verify=False, trust_env=False).status_code == 200
        except httpx.TransportError:
            return False

    until(answers)
    return process, port


def kubeconfig(folder: Path, server: str, **user: str) -> Path:
    """insecure: the certificate is one that the test made."""
    cluster = {"server": server, **({"insecure-skip-tls-verify": True} if server.startswith("https") else {})}
    file = folder / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "c",
                "clusters": [{"name": "m", "cluster": cluster}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "c", "context": {"cluster": "m", "user": "u"}}],
            }
        )
    )
    return file
