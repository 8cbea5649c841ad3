"""Encrypted links between an edge and a cloud node, with real agents and workers: certificates are issued when they
join."""

from __future__ import annotations

import base64
import io
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image

from tests.harness.joint.deployment import JointDeployment, resource
from tests.harness.until import PATIENCE_S, until
from tests.harness.video.cluster import VIDEO
from tests.harness.video.runner import video

pytestmark = pytest.mark.slow
NODES = ("tls-edge", "tls-cloud", "clear-cloud")


@pytest.fixture(scope="module")
def deployment(
    joint: JointDeployment, shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JointDeployment]:
    """Two nodes that refuse clear text, the edge with a video, and one that cannot encrypt."""
    clip = video(tmp_path_factory.mktemp("clip") / "clip.mp4")
    joint.node("tls-edge", "edge", "--tls", "required", "--video", f"people indoor={clip}")
    joint.node("tls-cloud", "cloud", "--tls", "required")
    joint.node("clear-cloud", "cloud", "--tls", "off")
    for name in ("small", "big"):
        content = (shared_data / "models" / f"digits_{name}.onnx").read_bytes()
        joint.add_model(name, content, decoder="classifier")
    yield joint
    joint.remove_nodes(*NODES)
    joint.remove_models("small", "big")


def service(cloud: str) -> Any:
    return resource("private", edge="tls-edge", cloud=cloud, small="small", big="big", algorithm="CloudOnly")


def node_of(deployment: JointDeployment, name: str) -> Any:
    return deployment.http.get(f"/neptune/nodes/{name}").json()


def result_of(job: Any) -> Any:
    """What the current plan of a video job has led to; no frames before there is any."""
    result = job["plan_result"] or {}
    return result if result.get("plan_seq") == job["plan"]["seq"] else {"frames": 0, "fallbacks": 0}


def steady_result(deployment: JointDeployment, job: str) -> Any:
    """What the plan has led to after four more frames that were all computed where it says, else None.

    A busy host may be too late for some, and the figures begin again from time to time.
    """
    before = result_of(deployment.http.get(job).json())
    since, most = before["frames"], before["frames"] + 4
    after = until(lambda: result_of(deployment.http.get(job).json()), lambda seen: not since <= seen["frames"] < most)
    return after if after["frames"] >= most and after["fallbacks"] == before["fallbacks"] else None


def test_hard_samples_travel_encrypted_and_nobody_else_is_answered(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    deployment.apply(service("tls-cloud"))
    deployment.reaches("private", "Running")
    (answer,) = deployment.ask("private", digits[:1])
    assert answer["source"] == "cloud"
    (worker,) = node_of(deployment, "tls-cloud")["workers"]
    assert worker["is_encrypted"]
    host, _, port = worker["address"].rpartition(":")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"http://{worker['address']}/private", trust_env=False)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection((host, int(port)), timeout=PATIENCE_S) as raw,
        pytest.raises(OSError, match=r"certificate required|closed|reset"),
        context.wrap_socket(raw) as stranger,
    ):
        assert not stranger.recv(100)
        raise ConnectionError("closed")


def test_pages_and_programs_are_told_who_encrypts_and_until_when(deployment: JointDeployment) -> None:
    for name, is_serving in (("tls-cloud", True), ("clear-cloud", False)):
        tls = node_of(deployment, name)["tls"]
        issuer = "installation" if is_serving else ""
        assert (tls["is_serving"], tls["issuer"], bool(tls["expires_at"])) == (is_serving, issuer, is_serving)
        page = deployment.http.get(f"/ui/nodes/{name}", headers={"Accept": "text/html"}).text
        assert ("Certificate of this installation" in page) is is_serving
        assert ("Not encrypted" in page) is not is_serving


def test_clear_text_is_refused_where_encryption_is_required(deployment: JointDeployment) -> None:
    deployment.apply(service("clear-cloud"))
    deployment.when("private", lambda record: "ClearTextRefused" in str(record))


def test_the_frames_of_a_video_job_travel_encrypted_and_calls_of_users_too(deployment: JointDeployment) -> None:
    http, own = deployment.http, f"{VIDEO}/stages/moving"
    assert http.put(own, json={"kind": "motion", "models": [], "parameters": {}}).status_code == 200
    body = {"node": "tls-edge", "video_id": 0, "stages": ["moving"], "policy": "fixed", "restart_policy": "eos"}
    made = http.post(f"{VIDEO}/jobs", json=body)
    assert made.status_code == 201, made.text
    job = made.headers["location"]
    until(lambda: http.get(job).json(), lambda now: now["n_loop"] > 0)
    until(lambda: http.get("/get_execute_url/moving").json(), lambda urls: len(urls) == 3)
    for node, is_away in (("tls-cloud", False), ("clear-cloud", True)):
        place = {"model_id": 0, "node_role": "cloud", "node_ip": "127.0.0.1", "node": node}
        conf = {"resolution": "240p", "fps": 12, "nskip": 0, "ntracking": 3, "encoder": "JPEG"}
        plan = http.put(f"{job}/plan", json={"video_conf": conf, "flow_mapping": {"moving": place}})
        assert plan.status_code == 200, plan.text
        result = until(lambda: result_of(http.get(job).json()), lambda seen: seen["frames"] > 3)
        if is_away:
            assert result["fallbacks"] == result["frames"], "without encryption it is not called: the edge stands in"
            continue
        result = until(lambda: steady_result(deployment, job))
        assert result["bytes_up"] > 1000
    until(lambda: http.get(job).json(), lambda now: now["flags"] == ["degraded"])
    until(lambda: "clear-cloud cannot be called from here" in http.get(f"{job}/events").text)
    # What a user calls at the web goes to the nodes with the web's own certificate.
    picture = io.BytesIO()
    Image.new("RGB", (64, 64)).save(picture, "PNG")
    two = [base64.b64encode(picture.getvalue()).decode()] * 2
    answer = http.post("/service/moving", params={"node": "tls-cloud"}, json={"clip": two})
    assert answer.status_code == 200, answer.text
    assert answer.json()["count_result"] == {"moving": 0, "total": 1}
    for worker in node_of(deployment, "tls-cloud")["workers"]:
        assert worker["is_encrypted"]
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://{worker['address']}/healthz", trust_env=False)
    assert http.post(f"{job}/cancel").status_code == 200
    until(lambda: http.get(job).json(), lambda now: now["state"] == "DONE")
    assert http.delete(job).status_code == 204
    assert http.delete(own).status_code == 204


@pytest.mark.exhaustive  # the units of the agent show it
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
    until(file.read_text, lambda text: text != before)

    def source() -> str:
        """Empty while the workers start again with another secret."""
        try:
            return str(deployment.ask("private", digits[:1])[0]["source"])
        except (httpx.TransportError, AssertionError):  # not there, or there with a path that has the former secret
            return ""

    until(source, lambda source: source == "cloud")
