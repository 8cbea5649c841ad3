"""A service on every node that its labels select, and a new model on its way over them: real web, controller, agents
and workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.harness.joint.deployment import MODELS, SERVICES, JointDeployment, current, metrics, resource
from tests.harness.until import until

pytestmark = pytest.mark.slow
EDGES = ("cam0", "cam1", "cam2")
SMALL = {"name": "small"}
STREAM = {"source": "", "loop": "true", "fps": "20", "on_full": "drop"}
QUICK = {"waves": ["1", "100%"], "soakSeconds": 1, "minPictures": 5, "maxLatencyRatio": "1000"}
BERLIN = {"site": "berlin"}


@pytest.fixture(scope="module")
def deployment(joint: JointDeployment, shared_data: Path, digits: list[bytes]) -> Iterator[JointDeployment]:
    """With the models small, of three versions of which the last is wrong, and big; three nodes at the edge, of which
    two have pictures, and one in the cloud."""
    for node in EDGES:
        joint.node(node, "edge")
    joint.node("cloud0", "cloud")
    for node in EDGES[:2]:
        (joint.deployment.folder / node).mkdir()
        for place, picture in enumerate(digits[:20]):
            (joint.deployment.folder / node / f"{place:02}.png").write_bytes(picture)
    weights = {name: (shared_data / "models" / f"digits_{name}.onnx").read_bytes() for name in ("small", "big")}
    joint.add_model("big", weights["big"], decoder="classifier")
    for content in (weights["small"], changed(weights["small"], lambda w: w), changed(weights["small"], turned)):
        joint.add_model("small", content, decoder="classifier", new_version="true")
    yield joint
    joint.remove_nodes(*EDGES, "cloud0")
    joint.remove_models("small", "big")


def changed(content: bytes, change: Callable[[Any], Any]) -> bytes:
    """The network in another file, with other weights."""
    model = onnx.load_from_string(content)
    model.doc_string = "another file"
    weights = next(tensor for tensor in model.graph.initializer if tensor.name == "w")
    weights.CopyFrom(numpy_helper.from_array(change(numpy_helper.to_array(weights)), "w"))
    return model.SerializeToString()


def turned(weights: Any) -> Any:
    """Each class is taken for the next."""
    return np.roll(weights, 1, axis=1)


def fleet(deployment: JointDeployment, rollout: dict[str, Any] | None = None, **parameters: str) -> Any:
    """On all nodes of Berlin, each with its own folder, twice."""
    folder = f"{deployment.deployment.folder}/$(NODE_NAME)"
    source = f"door={folder}\nyard={folder}"
    document = resource(
        "fleet",
        edge="",
        cloud="cloud0",
        small="small@stable",
        big="big",
        parameters={**STREAM, "source": source, **parameters},
    )
    edge = document["spec"]["edgeWorker"]
    del edge["nodeName"]
    return {**document, "spec": {**document["spec"], "edgeWorker": {**edge, "nodeSelector": BERLIN, **(rollout or {})}}}


def label(deployment: JointDeployment, node: str, labels: dict[str, str]) -> None:
    assert deployment.http.put(f"/neptune/nodes/{node}/labels", json={"labels": labels}).status_code == 200


def set_tag(deployment: JointDeployment, version: int) -> None:
    path = f"{MODELS}/tags/stable"
    assert deployment.http.put(path, params=SMALL, json={"version": version}).status_code == 200


def source_states(record: dict[str, Any]) -> list[tuple[str, str]]:
    """Name and state of the sources of all edge workers, as far as these have reported them."""
    details = [worker["detail"] for worker in edges(record).values()]
    return [(state["name"], state["status"]) for detail in details for state in detail.get("sources", [])]


def edges(record: Any) -> dict[str, Any]:
    return {worker["node"]: worker for worker in record["workers"] if worker["role"] == "edge"}


def versions(record: Any) -> list[Any]:
    return [(worker["runs"] or {}).get("version") for worker in edges(record).values()]


def test_one_document_runs_on_every_node_of_its_labels(deployment: JointDeployment) -> None:
    set_tag(deployment, 1)
    deployment.apply(fleet(deployment))
    state, reason, message = current(deployment.reaches("fleet", "Failed"))
    assert (state, reason) == ("Failed", "NodeNotFound") and "site=berlin" in message

    for node in EDGES[:2]:
        label(deployment, node, BERLIN)
    rules = {"rules": [{"name": "seen", "cooldown_s": 3600}]}
    assert deployment.http.put(f"{SERVICES}/default/fleet/rules", json=rules).status_code == 200
    record = deployment.when("fleet", lambda record: current(record)[2] == "2 of 2 edge nodes run.")
    assert current(record)[:2] == ("Running", "Serving")
    assert (record["resource"]["status"]["active"], list(edges(record))) == (3, ["cam0", "cam1"])
    deployment.when("fleet", lambda r: all(w["reported"].get("inferenceNumber", 0) > 9 for w in edges(r).values()))
    deployment.when("fleet", lambda r: metrics(r).get("nodeNumber") == "2" and int(metrics(r)["inferenceNumber"]) > 40)
    rows = until(
        lambda: deployment.http.get(f"{SERVICES}/default/fleet/rows", params={"limit": 500}).json()["rows"],
        lambda rows: {row["row"]["node"] for row in rows} == {"cam0", "cam1"},
    )
    assert len({row["n_loop"] for row in rows}) == len(rows), "numbers are of the service"
    events = until(
        lambda: deployment.http.get(f"{SERVICES}/default/fleet/rule-events").json()["events"],
        lambda events: len(events) >= 4,
    )
    origins = [(node, source) for node in ("cam0", "cam1") for source in ("door", "yard")]
    assert sorted((event["node"], event["source"]) for event in events) == origins, "each is judged for itself"
    expected = [("door", "running"), ("yard", "running")] * 2
    assert deployment.when("fleet", lambda record: source_states(record) == expected)

    label(deployment, "cam2", BERLIN)
    record = deployment.when("fleet", lambda record: "SourceUnavailable (1): cam2. " in current(record)[2])
    assert current(record)[:2] == ("Running", "Degraded")
    assert current(record)[2].startswith("2 of 3 edge nodes run.\n")
    page = deployment.http.get("/ui/services/default/fleet", headers={"Accept": "text/html"}).text
    assert all(f'id="worker-edge-{node}"' in page for node in EDGES)
    label(deployment, "cam2", {})
    record = deployment.reaches("fleet", "Serving")
    assert list(edges(record)) == ["cam0", "cam1"]
    until(lambda: not deployment.http.get("/neptune/nodes/cam2").json()["workers"])


@pytest.mark.exhaustive  # the units of the roll-out show each step
def test_a_new_model_comes_in_waves_and_a_wrong_one_is_taken_back(deployment: JointDeployment) -> None:
    set_tag(deployment, 1)
    for node in EDGES[:2]:
        label(deployment, node, BERLIN)
    deployment.apply(fleet(deployment, {"rollout": QUICK}))
    deployment.when("fleet", lambda r: r["rollout"] and r["rollout"]["state"] == "complete" and versions(r) == [1, 1])

    set_tag(deployment, 2)
    record = deployment.when("fleet", lambda record: record["rollout"]["state"] == "progressing")
    assert (record["rollout"]["former"]["version"], record["rollout"]["target"]["version"]) == (1, 2)
    assert record["rollout"]["nodes"] == ["cam0"]
    held = deployment.http.delete(f"{MODELS}/named", params={"name": "small@1"})
    assert held.status_code == 409, "the service may go back to it"
    record = deployment.when("fleet", lambda r: r["rollout"]["state"] == "complete" and versions(r) == [2, 2])
    events = deployment.http.get(f"{SERVICES}/default/fleet/events").json()["events"]
    waves = [event["message"] for event in reversed(events) if event["reason"] == "RolloutWave"]
    assert [wave.rpartition("begins on ")[2] for wave in waves] == ["cam0.", "cam1."]

    set_tag(deployment, 3)
    record = deployment.when("fleet", lambda record: record["rollout"]["state"] == "rolled-back")
    assert (
        "cam0: on " in record["rollout"]["reason"]
        and "the agreement with the former model is" in record["rollout"]["reason"]
    )
    record = deployment.when("fleet", lambda r: versions(r) == [2, 2] and current(r)[1] == "RolledBack")
    assert edges(record)["cam1"]["wanted"]["version"] == 2
    assert "cam1" not in record["rollout"]["nodes"], "it never had the wrong one"

    refused = deployment.http.post(f"{SERVICES}/default/fleet/rollout", json={"action": "pause"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "NO_SUCH_ROLLOUT")
    forced = deployment.http.post(f"{SERVICES}/default/fleet/rollout", json={"action": "promote"})
    assert forced.json()["rollout"]["state"] == "complete"
    deployment.when("fleet", lambda r: versions(r) == [3, 3] and current(r)[1] == "Serving")
    deployment.remove("fleet")
