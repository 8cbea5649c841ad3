"""Joint inference from a service's creation to its end: real web, controller, agents and workers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.harness.joint.deployment import JointDeployment, current, metrics, resource, worker

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory, shared_data: Path) -> Iterator[JointDeployment]:
    found = JointDeployment(tmp_path_factory.mktemp("joint"))
    try:
        found.start()
        found.node("edge0", "edge", "--scripts", str(found.deployment.folder / "scripts"))
        found.node("cloud0", "cloud")
        for name in ("small", "big"):
            model = (shared_data / "models" / f"digits_{name}.onnx").read_bytes()
            found.add_model(name, model, decoder="classifier")
        yield found
    finally:
        found.close()


def digits_service(name: str, **changes: Any) -> Any:
    fields: dict[str, Any] = {"edge": "edge0", "cloud": "cloud0", "small": "small", "big": "big", **changes}
    return resource(name, **fields)


def ask(deployment: JointDeployment, name: str, pictures: list[bytes]) -> list[dict[str, Any]]:
    """The edge worker, as a program on its machine asks it."""
    url = f"http://{worker(deployment.service(name), 'edge')['address']}/{name}/predict"
    answers = [httpx.post(url, files={"picture": ("d.png", picture, "image/png")}) for picture in pictures]
    assert {answer.status_code for answer in answers} == {200}, answers[0].text
    return [answer.json() for answer in answers]


def remove(deployment: JointDeployment, *names: str) -> None:
    for name in names:
        deployment.delete(name)
    for name in names:
        deployment.until(lambda name=name: deployment.is_gone(name))


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_service_is_born_serves_counts_and_dies(deployment: JointDeployment, digits: list[bytes]) -> None:
    deployment.apply(digits_service("life"))
    running = deployment.reaches("life", "Running")
    assert running["resource"]["status"]["active"] == 2
    started = running["resource"]["status"]["startTime"]
    pids = [worker(running, role)["pid"] for role in ("edge", "cloud")]
    answers = ask(deployment, "life", digits[:60])
    hard = [answer for answer in answers if answer["is_hard"]]
    assert {answer["source"] for answer in hard} == {"cloud"}
    assert {answer["source"] for answer in answers if not answer["is_hard"]} == {"edge"}
    found = deployment.when("life", lambda found: metrics(found).get("inferenceNumber") == "60")
    assert metrics(found)["hardExampleNumber"] == str(len(hard))
    assert float(metrics(found)["uploadCloudRatio"]) == pytest.approx(len(hard) / 60, abs=1e-4)
    assert found["resource"]["status"]["startTime"] == started
    samples = deployment.until(lambda: deployment.http.get("/api/v2/services/default/life/samples").json()["samples"])
    assert samples[0]["cloud"]["probabilities"]
    assert deployment.http.get(samples[0]["picture"]).headers["content-type"] == "image/png"
    events = deployment.http.get("/api/v2/services/default/life/events").json()["events"]
    assert events[0]["type"] == "Running"
    assert {event["type"] for event in events} >= {"Pending", "Running"}
    assert all(map(alive, pids))
    remove(deployment, "life")
    deployment.until(lambda: not any(map(alive, pids)))


def test_the_big_model_serves_before_the_edge_worker_starts(deployment: JointDeployment) -> None:
    deployment.apply(digits_service("order"))
    found = deployment.reaches("order", "Running")
    assert worker(found, "cloud")["started_at"] < worker(found, "edge")["started_at"]
    remove(deployment, "order")


def test_what_is_missing_is_named_and_the_service_recovers_when_it_comes(
    deployment: JointDeployment, shared_data: Path
) -> None:
    deployment.apply(digits_service("hopes", small="later", edge="edge0"))
    failed = deployment.reaches("hopes", "ModelNotFound")
    assert current(failed)[0] == "Failed"
    assert "'later'" in current(failed)[2]
    model = (shared_data / "models" / "digits_small.onnx").read_bytes()
    deployment.add_model("later", model, decoder="classifier")
    found = deployment.reaches("hopes", "Running")
    assert found["resource"]["metadata"]["generation"] == 1
    remove(deployment, "hopes")
    deployment.apply(digits_service("nowhere", edge="edge9"))
    assert "'edge9'" in current(deployment.reaches("nowhere", "NodeNotFound"))[2]
    deployment.node("edge9", "edge")
    deployment.reaches("nowhere", "Running")
    remove(deployment, "nowhere")


def test_unfit_algorithms_parameters_and_data_fail_it_and_a_silent_threshold_warns(deployment: JointDeployment) -> None:
    deployment.apply(digits_service("algo", algorithm="Unheard"))
    assert "Unheard" in current(deployment.reaches("algo", "AlgorithmNotFound"))[2]
    deployment.apply(digits_service("algo", parameters={"threshold_cross_entropy": "much"}))
    assert "threshold_cross_entropy" in current(deployment.reaches("algo", "BadParameters"))[2]
    deployment.apply(digits_service("algo", parameters={"dataset": "/private/common/datasets/none"}))
    deployment.reaches("algo", "DatasetNotFound")
    deployment.apply(digits_service("algo", algorithm="Random", parameters={"random_ratio": "0"}))
    found = deployment.reaches("algo", "Running")
    warning = next(c for c in found["resource"]["status"]["conditions"] if c["type"] == "Warning")
    assert (warning["status"], warning["reason"]) == ("True", "NeverHard")
    remove(deployment, "algo")


def test_a_killed_worker_comes_back_and_one_that_ends_at_once_fails_with_its_last_words(
    deployment: JointDeployment,
) -> None:
    deployment.apply(digits_service("phoenix"))
    first = worker(deployment.reaches("phoenix", "Serving"), "edge")
    os.kill(first["pid"], signal.SIGKILL)
    found = deployment.when("phoenix", lambda found: worker(found, "edge").get("pid") not in (None, 0, first["pid"]))
    assert worker(found, "edge")["restarts"] == 1
    deployment.reaches("phoenix", "Serving")
    remove(deployment, "phoenix")
    scripts = deployment.deployment.folder / "scripts"
    scripts.mkdir(exist_ok=True)
    (scripts / "broken.py").write_text("print('the camera is not there')\nraise SystemExit(7)\n")
    deployment.apply(digits_service("broken", script=f"{scripts}/broken.py"))
    failed = deployment.reaches("broken", "WorkerFailed")
    assert current(failed)[0] == "Failed"
    for said in ("broken-edge", "exit code 7", "the camera is not there"):
        assert said in current(failed)[2]
    assert (failed["resource"]["status"]["active"], failed["resource"]["status"]["failed"]) == (1, 1)
    remove(deployment, "broken")


def test_a_program_of_the_users_is_the_worker_and_gets_its_parameters(deployment: JointDeployment) -> None:
    scripts, said = deployment.deployment.folder / "scripts", deployment.deployment.folder / "said"
    scripts.mkdir(exist_ok=True)
    (scripts / "own.py").write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(said)!r}).write_text(' '.join(os.environ[n] for n in "
        "('PARAM_NMS_THRESHOLD', 'SERVICE_NAME', 'HEM_NAME')))\n"
        "time.sleep(600)\n"
    )
    deployment.apply(digits_service("own", script=f"{scripts}/own.py", parameters={"nms_threshold": "0.6"}))
    deployment.reaches("own", "Running")
    assert said.read_text() == "0.6 own CrossEntropy"
    remove(deployment, "own")
    deployment.apply(digits_service("out", script="/bin/true"))
    assert current(deployment.reaches("out", "WorkerFailed"))[0] == "Failed"
    remove(deployment, "out")


def test_a_cloud_that_goes_leaves_the_edge_answering_and_is_asked_again_when_it_is_back(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    deployment.apply(digits_service("alone", algorithm="CloudOnly", parameters={"breaker_pause_s": "1"}))
    big = worker(deployment.reaches("alone", "Serving"), "cloud")["pid"]
    os.kill(big, signal.SIGSTOP)
    assert {answer["source"] for answer in ask(deployment, "alone", digits[:4])} == {"edge_fallback"}
    degraded = deployment.reaches("alone", "Degraded")
    assert current(degraded)[0] == "Running"
    assert degraded["reported"]["breaker"] == "open"
    os.kill(big, signal.SIGKILL)
    deployment.until(lambda: ask(deployment, "alone", digits[:1])[0]["source"] == "cloud")
    deployment.reaches("alone", "Serving")
    remove(deployment, "alone")


def test_agents_and_web_may_be_killed_in_turn_and_nothing_is_lost(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    deployment.apply(digits_service("steady"))
    before = deployment.reaches("steady", "Serving")
    pids = {role: worker(before, role)["pid"] for role in ("edge", "cloud")}
    ask(deployment, "steady", digits[:10])
    for agent in deployment.agents.values():
        agent.kill()
    ask(deployment, "steady", digits[:10])
    for agent in deployment.agents.values():
        agent.start()
    adopted = deployment.when("steady", lambda found: metrics(found).get("inferenceNumber") == "20")
    assert {role: worker(adopted, role)["pid"] for role in pids} == pids
    url = f"http://{worker(adopted, 'edge')['address']}/steady/predict"
    deployment.kill_web()
    for picture in digits[:10]:
        assert httpx.post(url, files={"picture": ("d.png", picture, "image/png")}).status_code == 200
    deployment.web()
    found = deployment.when("steady", lambda found: metrics(found).get("inferenceNumber") == "30")
    assert current(found)[0] == "Running"
    assert {role: worker(found, role)["pid"] for role in pids} == pids
    remove(deployment, "steady")


def test_a_service_deleted_while_its_node_is_away_ends_there_when_it_is_back(deployment: JointDeployment) -> None:
    deployment.apply(digits_service("late"))
    pid = worker(deployment.reaches("late", "Serving"), "edge")["pid"]
    deployment.agents["edge0"].kill()
    deployment.delete("late")
    deployment.until(
        lambda: deployment.service("late")["workers"][1]["state"] is None
    )  # the cloud's has ended meanwhile
    assert alive(pid)
    assert not deployment.is_gone("late")
    deployment.agents["edge0"].start()
    deployment.until(lambda: deployment.is_gone("late"))
    deployment.until(lambda: not alive(pid))


def test_two_services_share_a_node_and_a_change_of_one_leaves_the_other_alone(deployment: JointDeployment) -> None:
    for name in ("one", "two"):
        deployment.apply(digits_service(name))
    one, two = deployment.reaches("one", "Serving"), deployment.reaches("two", "Serving")
    assert worker(one, "edge")["address"] != worker(two, "edge")["address"]
    deployment.apply(digits_service("two", parameters={"threshold_cross_entropy": "0.3"}))
    changed = deployment.when("two", lambda found: worker(found, "edge").get("generation") == 2)
    deployment.reaches("two", "Serving")
    assert worker(deployment.service("one"), "edge")["pid"] == worker(one, "edge")["pid"]
    assert worker(changed, "edge")["pid"] != worker(two, "edge")["pid"]
    remove(deployment, "one", "two")


# --- what a node reports, by hand ----------------------------------------------------------------------
def upstream(deployment: JointDeployment, name: str, minute: int, number: int, **changes: Any) -> httpx.Response:
    info = {
        "inferenceNumber": number, "hardExampleNumber": 1, "uploadCloudRatio": 0.1,
        "startTime": "2020-11-03T08:39:22.517Z", "currentTime": f"2020-11-03T08:{minute}:22.517Z",
    }  # fmt: skip
    body = {"phase": "inference", "status": "running", "output": {"models": [], "taskInfo": info}, **changes}
    return deployment.http.post(f"/default/neptune/upstream/jointinferenceservices/{name}/status", json=body)


def test_a_status_from_below_shows_in_the_metrics_and_an_older_one_is_ignored(deployment: JointDeployment) -> None:
    deployment.apply(digits_service("told", edge="nobody"))
    assert upstream(deployment, "told", 50, 1000).json() == {"Status": 200, "Message": "OK"}
    deployment.when("told", lambda found: metrics(found).get("inferenceNumber") == "1000")
    assert upstream(deployment, "told", 40, 7).status_code == 200
    assert upstream(deployment, "told", 55, 1001).status_code == 200
    found = deployment.when("told", lambda found: metrics(found)["inferenceNumber"] != "1000")
    assert metrics(found)["inferenceNumber"] == "1001"
    assert metrics(found)["uploadCloudRatio"] == "0.1"
    assert upstream(deployment, "unknown", 50, 1).status_code == 404
    assert upstream(deployment, "told", 56, -1).status_code == 422
    assert upstream(deployment, "told", 56, 1, status="dancing").status_code == 422
    assert upstream(deployment, "told", 56, 1, output={}).status_code == 422
    damaged = deployment.http.post("/default/neptune/upstream/jointinferenceservices/told/status", content=b"{")
    assert damaged.status_code == 400
    remove(deployment, "told")


# --- the agent's own door --------------------------------------------------------------------------------
def test_the_agents_door_takes_what_a_worker_says_and_refuses_what_is_not_its_own(deployment: JointDeployment) -> None:
    deployment.apply(digits_service("door"))
    deployment.reaches("door", "Serving")
    agent = deployment.agents["edge0"].url
    body = {
        "name": "door-edge", "namespace": "default", "ownerName": "door", "ownerKind": "jointinferenceservice",
        "kind": "inference", "status": "running",
        "taskInfo": {
            "inferenceNumber": 1000, "hardExampleNumber": 100, "uploadCloudRatio": 0.1,
            "startTime": "2020-11-03T08:39:22.517Z", "updateTime": "2020-11-03T08:50:22.517Z",
        },
    }  # fmt: skip
    info = f"{agent}/neptune/workers/door-edge/info"
    assert httpx.post(info, json=body).json() == {"Status": 200, "Message": "OK"}
    assert httpx.post(info, json={**body, "name": "other"}).status_code == 400
    assert httpx.post(info, json={**body, "ownerKind": "pod"}).status_code == 400
    assert httpx.post(info, json={**body, "ownerInfo": body["taskInfo"]}).status_code == 200
    assert httpx.post(f"{agent}/neptune/workers/nobody/info", json={**body, "name": "nobody"}).status_code == 404
    service = deployment.service("door")["resource"]
    place = f"{agent}/default/neptune/downstream/jointinferenceservices/door"
    assert httpx.post(f"{place}/update", json=service).json() == {"Status": 200, "Message": "OK"}
    other = {**service, "metadata": {**service["metadata"], "name": "other"}}
    assert httpx.post(f"{place}/update", json=other).status_code == 400
    remove(deployment, "door")


def test_a_stalled_big_model_does_not_hold_up_what_the_edge_sees(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    """The frames of a stream go on while nothing comes back from the cloud."""
    folder = deployment.deployment.folder / "stream"
    folder.mkdir()
    for number, picture in enumerate(digits[:50]):
        (folder / f"{number:03}.png").write_bytes(picture)
    parameters = {"source": str(folder), "deadline_ms": "60000", "fps": "0", "queue_size": "4"}
    deployment.apply(digits_service("stream", algorithm="EdgeOnly"))
    big = worker(deployment.reaches("stream", "Serving"), "cloud")["pid"]
    os.kill(big, signal.SIGSTOP)
    try:
        deployment.apply(digits_service("stream", parameters=parameters))
        found = deployment.when("stream", lambda found: metrics(found).get("inferenceNumber") == "50")
        assert metrics(found)["uploadNumber"] == "0"
        assert int(metrics(found)["hardExampleNumber"]) > 0
    finally:
        os.kill(big, signal.SIGCONT)
    assert worker(deployment.service("stream"), "cloud")["pid"] == big, (
        "a change of the edge is none of the cloud worker's"
    )
    remove(deployment, "stream")


def test_a_worker_that_is_to_live_once_stays_ended(deployment: JointDeployment) -> None:
    deployment.apply(digits_service("once", parameters={"restart_policy": "never"}))
    pid = worker(deployment.reaches("once", "Serving"), "edge")["pid"]
    os.kill(pid, signal.SIGKILL)
    found = deployment.reaches("once", "WorkerFailed")
    assert (found["resource"]["status"]["active"], found["resource"]["status"]["failed"]) == (1, 1)
    assert "exit code -9" in current(found)[2]
    remove(deployment, "once")


def test_the_list_of_a_thousand_services_is_paged(deployment: JointDeployment) -> None:
    def fill(start: int) -> None:
        with httpx.Client(base_url=deployment.deployment.url, timeout=60, trust_env=False) as http:
            for number in range(start, 1000, 4):
                body = digits_service(f"many-{number}", edge="nobody", namespace="many")
                assert http.post("/api/v2/services", json=body).status_code == 201

    threads = [threading.Thread(target=fill, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seen, cursor = set[str](), None
    while True:
        query = {"namespace": "many", "limit": 500, **({"cursor": cursor} if cursor else {})}
        page = deployment.http.get("/api/v2/services", params=query).json()
        seen |= {service["name"] for service in page["services"]}
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert len(seen) == 1000
    assert deployment.http.get("/api/v2/services", params={"q": "many-77", "limit": 500}).json()["next_cursor"] is None
    for name in seen:
        deployment.delete(name, "many")
    deployment.until(
        lambda: not deployment.http.get("/api/v2/services", params={"namespace": "many"}).json()["services"]
    )
