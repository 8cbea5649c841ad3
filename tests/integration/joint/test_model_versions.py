"""A service that follows a tag of its model: real web, controller, agents and workers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest

from app.bootstrap.container import assemble
from app.kit.objects.blobs import blob_key
from tests.harness.joint.deployment import MODELS, JointDeployment, current, resource, worker

pytestmark = pytest.mark.slow
SMALL = {"name": "small"}


@pytest.fixture(scope="module")
def deployment(joint: JointDeployment, shared_data: Path) -> Iterator[JointDeployment]:
    """With the models small, of three versions, and big, and the nodes edge0 and cloud0."""
    joint.node("edge0", "edge")
    joint.node("cloud0", "cloud")
    weights = {name: (shared_data / "models" / f"digits_{name}.onnx").read_bytes() for name in ("small", "big")}
    joint.add_model("big", weights["big"], decoder="classifier")
    for content in (weights["small"], weights["big"], renamed(weights["small"])):
        joint.add_model("small", content, decoder="classifier", new_version="true")
    yield joint
    joint.remove_nodes("edge0", "cloud0")
    joint.remove_models("small", "big")


def renamed(content: bytes) -> bytes:
    """The same network in another file."""
    model = onnx.load_from_string(content)
    model.doc_string = "another file"
    return model.SerializeToString()


def set_tag(deployment: JointDeployment, version: int) -> None:
    path = f"{MODELS}/tags/stable"
    assert deployment.http.put(path, params=SMALL, json={"version": version}).status_code == 200


def runs(record: Any) -> Any:
    return (worker(record, "edge")["runs"] or {}).get("version")


@pytest.mark.exhaustive  # controller and agent show it apart
def test_a_service_follows_the_tag_and_goes_on_with_the_old_version_while_the_new_one_cannot_be_fetched(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    set_tag(deployment, 1)
    deployment.apply(resource("tagged", edge="edge0", cloud="cloud0", small="small@stable", big="big"))
    deployment.reaches("tagged", "Serving")
    deployment.when("tagged", lambda record: runs(record) == 1)
    versions = deployment.http.get(f"{MODELS}/versions", params=SMALL).json()["versions"]
    digests = {version["version"]: version["sha256"] for version in versions}

    set_tag(deployment, 2)
    record = deployment.when("tagged", lambda record: runs(record) == 2 and current(record)[1] == "Serving")
    assert worker(record, "edge")["runs"] == {"model": "small", "version": 2, "sha256": digests[2]}
    assert worker(record, "edge")["wanted"] == {"model": "small@stable", "version": 2, "sha256": digests[2]}
    assert record["resource"]["metadata"]["generation"] == 1
    used = deployment.http.delete(f"{MODELS}/tags/stable", params=SMALL)
    assert (used.status_code, used.json()["error"]["detail"]["used_by"]) == (409, ["service default/tagged"])

    container = assemble(deployment.deployment.settings())
    container.objects.delete(blob_key(digests[3]))
    container.close()
    set_tag(deployment, 3)
    state, _, message = current(deployment.reaches("tagged", "Degraded"))
    assert state == "Running"
    assert f"cannot change to version 3 of 'small' (sha256 {digests[3][:12]}…)" in message
    assert f"and goes on with version 2 of 'small' (sha256 {digests[2][:12]}…)" in message
    assert worker(deployment.service("tagged"), "edge")["state"] == "RUNNING"
    assert len(deployment.ask("tagged", digits[:5])) == 5

    events = deployment.http.get("/api/v2/services/default/tagged/events").json()["events"]
    changes = [event["message"] for event in reversed(events) if event["reason"] == "ModelChanged"]
    assert ["to version 2" in change for change in changes] == [True, False] and "to version 3" in changes[1]

    set_tag(deployment, 1)
    deployment.when("tagged", lambda record: runs(record) == 1 and current(record)[1] == "Serving")
    deployment.remove("tagged")
