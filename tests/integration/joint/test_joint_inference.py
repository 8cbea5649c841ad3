"""Joint inference from a service's creation to its end: real web, controller, agents and workers."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.joint.deployment import JointDeployment, current, metrics, resource, worker
from tests.harness.processes import is_alive
from tests.harness.until import PATIENCE_S, until
from tests.harness.users import OURS

pytestmark = pytest.mark.slow
LEASE = "nodes:leader"


@pytest.fixture(scope="module")
def deployment(joint: JointDeployment, shared_data: Path) -> Iterator[JointDeployment]:
    """With the models small and big, the nodes edge0 and cloud0, and a folder for programs of users."""
    (joint.deployment.folder / "scripts").mkdir()
    joint.node("edge0", "edge", "--scripts", str(joint.deployment.folder / "scripts"))
    joint.node("cloud0", "cloud")
    for name in ("small", "big"):
        model = (shared_data / "models" / f"digits_{name}.onnx").read_bytes()
        joint.add_model(name, model, decoder="classifier")
    yield joint
    joint.remove_nodes("edge0", "cloud0")
    joint.remove_models("small", "big")


@pytest.fixture(scope="module")
def standing(deployment: JointDeployment) -> Iterator[str]:
    """Name of a service that all may ask and disturb who leave it serving."""
    deployment.apply(digits_service("standing"))
    deployment.reaches("standing", "Serving")
    yield "standing"
    deployment.remove("standing")


def digits_service(name: str, **changes: Any) -> Any:
    fields: dict[str, Any] = {"edge": "edge0", "cloud": "cloud0", "small": "small", "big": "big", **changes}
    return resource(name, **fields)


def test_a_service_is_born_serves_counts_and_dies(deployment: JointDeployment, digits: list[bytes]) -> None:
    deployment.apply(digits_service("life"))
    running = deployment.reaches("life", "Running")
    assert running["resource"]["status"]["active"] == 2
    started = running["resource"]["status"]["startTime"]
    pids = [worker(running, role)["pid"] for role in ("edge", "cloud")]
    answers = deployment.ask("life", digits[:60])
    hard = [answer for answer in answers if answer["is_hard"]]
    assert {answer["source"] for answer in hard} == {"cloud"}
    assert {answer["source"] for answer in answers if not answer["is_hard"]} == {"edge"}
    record = deployment.when("life", lambda record: metrics(record).get("inferenceNumber") == "60")
    assert metrics(record)["hardExampleNumber"] == str(len(hard))
    assert float(metrics(record)["uploadCloudRatio"]) == pytest.approx(len(hard) / 60, abs=1e-4)
    assert record["resource"]["status"]["startTime"] == started
    samples = until(lambda: deployment.http.get("/api/v2/services/default/life/samples").json()["samples"])
    assert samples[0]["cloud"]["probabilities"]
    assert deployment.http.get(samples[0]["picture"]).headers["content-type"] == "image/png"
    events = deployment.http.get("/api/v2/services/default/life/events").json()["events"]
    assert events[0]["type"] == "Running"
    assert {event["type"] for event in events} >= {"Pending", "Running"}
    assert all(map(is_alive, pids))
    deployment.remove("life")
    until(lambda: not any(map(is_alive, pids)))


def test_each_answer_is_a_row_and_judged_once_also_when_the_worker_is_killed(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    place = "/api/v2/services/default/rows"

    def rows(count: int) -> list[dict[str, Any]]:
        """As soon as there are so many."""
        return until(
            lambda: deployment.http.get(f"{place}/rows", params={"limit": 1000}).json()["rows"],
            lambda kept: len(kept) >= count,
        )

    deployment.apply(digits_service("rows", parameters={"collect": "datasets/hard"}))
    pid = worker(deployment.reaches("rows", "Serving"), "edge")["pid"]
    rules = {"rules": [{"name": "zero", "label": "0", "cooldown_s": 3600}]}
    assert deployment.http.put(f"{place}/rules", json=rules).status_code == 200
    sink = {"kind": "file", "address": "datasets/events", "content": "events"}
    assert deployment.http.post(f"{place}/sinks", json=sink).status_code == 201
    answers = deployment.ask("rows", digits[:30])
    kept = rows(30)
    assert [one["row"]["sample"] for one in kept] == [answer["id"] for answer in answers]
    assert [one["row"]["answered_by"] for one in kept] == [answer["source"] for answer in answers]
    names = {(one["row"]["answered_by"], one["row"]["model_name"], one["row"]["model_version"]) for one in kept}
    assert names == {("edge", "small", 1), ("cloud", "big", 1)}
    best = max(answers[0]["final"]["probabilities"])
    assert kept[0]["row"]["scores"] == [pytest.approx(best, abs=1e-4)]
    os.kill(pid, signal.SIGKILL)
    deployment.starts_again("rows", "edge", former_pid=pid)
    answers += deployment.ask("rows", digits[30:40])
    kept = rows(40)
    assert [one["n_loop"] for one in kept] == list(range(1, 41))
    assert [one["row"]["sample"] for one in kept] == [answer["id"] for answer in answers]

    def collected() -> Any:
        answer = deployment.http.get("/api/v2/files/content", params={"path": "datasets/hard/annotations.json"})
        return answer.json() if answer.status_code == 200 else None

    (event,) = deployment.http.get(f"{place}/rule-events").json()["events"]
    zeros = [one["n_loop"] for one in kept if one["row"]["labels"] == ["0"]]
    assert (event["rule"], event["text"], event["n_loop"]) == ("zero", "0", zeros[0])
    label_of = {tuple(one["row"]["ids"]): one["row"]["labels"] for one in kept}
    assert all(label_of[tuple(one["row"]["ids"])] == one["row"]["labels"] for one in kept), "no id is given twice"
    ids_of = {one["row"]["sample"]: one["row"]["ids"] for one in kept}
    assert [one["track"] for one in event["objects"]] == ids_of[kept[zeros[0] - 1]["row"]["sample"]]
    samples = deployment.http.get(f"{place}/samples").json()["samples"]
    assert {one["id"]: one["extra"]["ids"] for one in samples}.items() <= ids_of.items()

    def delivered() -> Any:
        files = deployment.http.get("/api/v2/files", params={"path": "datasets/events"}).json().get("entries", [])
        path = f"datasets/events/{files[0]['name']}" if files else ""
        return deployment.http.get("/api/v2/files/content", params={"path": path}).json() if path else None

    message = until(delivered)
    assert (message["type"], message["data"]["service"]) == ("modelmill.joint.event", "default/rows")
    assert message["data"]["rule"] == "zero"

    dataset = until(collected)
    assert dataset["images"][0]["file_name"] == "images/000001.png"
    assert dataset["annotations"][0]["bbox"] == [0, 0, 8, 8]
    deployment.remove("rows")


def test_the_big_model_serves_before_the_edge_worker_starts(deployment: JointDeployment, standing: str) -> None:
    record = deployment.service(standing)
    assert worker(record, "cloud")["started_at"] < worker(record, "edge")["started_at"]


def test_what_is_missing_is_named_and_the_service_recovers_when_it_comes(
    deployment: JointDeployment, shared_data: Path
) -> None:
    deployment.apply(digits_service("hopes", small="later", edge="edge9"))
    failed = deployment.reaches("hopes", "ModelNotFound")
    assert current(failed)[0] == "Failed"
    assert "'later'" in current(failed)[2]
    model = (shared_data / "models" / "digits_small.onnx").read_bytes()
    deployment.add_model("later", model, decoder="classifier")
    assert "'edge9'" in current(deployment.reaches("hopes", "NodeNotFound"))[2]
    deployment.node("edge9", "edge")
    record = deployment.reaches("hopes", "Running")
    assert record["resource"]["metadata"]["generation"] == 1
    deployment.remove("hopes")
    deployment.remove_node("edge9")
    deployment.remove_models("later")


def test_unfit_algorithms_parameters_and_data_fail_it_and_a_silent_threshold_warns(deployment: JointDeployment) -> None:
    deployment.apply(digits_service("algo", algorithm="Unheard"))
    assert "Unheard" in current(deployment.reaches("algo", "AlgorithmNotFound"))[2]
    deployment.apply(digits_service("algo", parameters={"threshold_cross_entropy": "much"}))
    assert "threshold_cross_entropy" in current(deployment.reaches("algo", "BadParameters"))[2]
    deployment.apply(digits_service("algo", parameters={"dataset": "/private/common/datasets/none"}))
    deployment.reaches("algo", "DatasetNotFound")
    deployment.apply(digits_service("algo", algorithm="Random", parameters={"random_ratio": "0"}))
    record = deployment.reaches("algo", "Running")
    warning = next(c for c in record["resource"]["status"]["conditions"] if c["type"] == "Warning")
    assert (warning["status"], warning["reason"]) == ("True", "NeverHard")
    deployment.remove("algo")


@pytest.mark.exhaustive  # the agent's own tests show it
def test_a_killed_worker_comes_back(deployment: JointDeployment, standing: str) -> None:
    first = worker(deployment.service(standing), "edge")
    os.kill(first["pid"], signal.SIGKILL)
    record = deployment.starts_again(standing, "edge", former_pid=first["pid"])
    assert worker(record, "edge")["restarts"] == first["restarts"] + 1
    deployment.reaches(standing, "Serving")


@pytest.mark.exhaustive  # those of worker and agent do
def test_a_program_of_the_users_is_the_worker_gets_its_parameters_and_fails_with_its_last_words(
    deployment: JointDeployment,
) -> None:
    scripts, report = deployment.deployment.folder / "scripts", deployment.deployment.folder / "said"
    (scripts / "own.py").write_text(
        "import os, pathlib, time\n"
        f"pathlib.Path({str(report)!r}).write_text(' '.join(os.environ[n] for n in "
        "('PARAM_NMS_THRESHOLD', 'SERVICE_NAME', 'HEM_NAME')))\n"
        "time.sleep(600)\n"
    )
    deployment.apply(digits_service("own", script=f"{scripts}/own.py", parameters={"nms_threshold": "0.6"}))
    big = worker(deployment.reaches("own", "Running"), "cloud")["pid"]
    assert until(lambda: report.is_file() and report.read_text()) == "0.6 own CrossEntropy"
    (scripts / "broken.py").write_text("print('the camera is not there')\nraise SystemExit(7)\n")
    deployment.apply(digits_service("own", script=f"{scripts}/broken.py"))
    failed = deployment.reaches("own", "WorkerFailed")
    assert current(failed)[0] == "Failed"
    for words in ("own-edge", "exit code 7", "the camera is not there"):
        assert words in current(failed)[2]
    assert (failed["resource"]["status"]["active"], failed["resource"]["status"]["failed"]) == (1, 1)
    deployment.apply(digits_service("own", script="/bin/true"))
    refused = deployment.when("own", lambda record: "ScriptRefused" in str(record["workers"]))
    assert current(deployment.reaches("own", "WorkerFailed"))[0] == "Failed"
    assert worker(refused, "cloud")["pid"] == big
    deployment.remove("own")


@pytest.mark.exhaustive  # a killed cloud of a worker shows it
def test_a_cloud_that_goes_leaves_the_edge_answering_and_is_asked_again_when_it_is_back(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    parameters = {"breaker_pause_s": "1", "deadline_ms": "500"}
    deployment.apply(digits_service("alone", algorithm="CloudOnly", parameters=parameters))
    big = worker(deployment.reaches("alone", "Serving"), "cloud")["pid"]
    os.kill(big, signal.SIGSTOP)
    assert {answer["source"] for answer in deployment.ask("alone", digits[:4])} == {"edge_fallback"}
    assert current(deployment.reaches("alone", "Degraded"))[0] == "Running"
    deployment.when("alone", lambda record: record["reported"]["breaker"] == "open")  # and half-open during each probe
    os.kill(big, signal.SIGKILL)
    until(lambda: deployment.ask("alone", digits[:1])[0]["source"] == "cloud")
    deployment.reaches("alone", "Serving")
    deployment.remove("alone")


def test_agents_and_web_may_be_killed_in_turn_and_nothing_is_lost(
    deployment: JointDeployment, standing: str, digits: list[bytes]
) -> None:
    before = deployment.service(standing)
    pids = {role: worker(before, role)["pid"] for role in ("edge", "cloud")}
    counted = int(metrics(before).get("inferenceNumber", "0"))
    deployment.ask(standing, digits[:10])
    for agent in deployment.agents.values():
        agent.kill()
    deployment.ask(standing, digits[:10])
    for agent in deployment.agents.values():
        agent.start()
    adopted = deployment.when(standing, lambda record: metrics(record).get("inferenceNumber") == str(counted + 20))
    assert {role: worker(adopted, role)["pid"] for role in pids} == pids
    url = deployment.predict_url(standing)
    deployment.kill_web()
    for picture in digits[:10]:
        assert httpx.post(url, files={"picture": ("d.png", picture, "image/png")}).status_code == 200
    deployment.web()
    deployment.when(standing, lambda record: metrics(record).get("inferenceNumber") == str(counted + 30))
    record = deployment.reaches(standing, "Running")
    assert {role: worker(record, role)["pid"] for role in pids} == pids


@pytest.mark.exhaustive  # the agent's own tests show it
def test_a_service_deleted_while_its_node_is_away_ends_there_when_it_is_back(deployment: JointDeployment) -> None:
    deployment.apply(digits_service("late"))
    pid = worker(deployment.reaches("late", "Serving"), "edge")["pid"]
    deployment.agents["edge0"].kill()
    deployment.delete("late")
    until(lambda: deployment.service("late")["workers"][1]["state"] is None)  # the cloud's has ended meanwhile
    assert is_alive(pid)
    assert not deployment.is_gone("late")
    deployment.agents["edge0"].start()
    until(lambda: deployment.is_gone("late"))
    until(lambda: not is_alive(pid))


@pytest.mark.exhaustive  # the agent's own tests show it
def test_two_services_share_a_node_and_a_change_of_one_leaves_the_other_alone(
    deployment: JointDeployment, standing: str
) -> None:
    deployment.apply(digits_service("two"))
    one, two = deployment.reaches(standing, "Serving"), deployment.reaches("two", "Serving")
    assert worker(one, "edge")["address"] != worker(two, "edge")["address"]
    deployment.apply(digits_service("two", parameters={"threshold_cross_entropy": "0.3"}))
    changed = deployment.when("two", lambda record: worker(record, "edge").get("generation") == 2)
    deployment.reaches("two", "Serving")
    assert worker(deployment.service(standing), "edge")["pid"] == worker(one, "edge")["pid"]
    assert worker(changed, "edge")["pid"] != worker(two, "edge")["pid"]
    deployment.remove("two")


# --- what a node reports, by hand ----------------------------------------------------------------------
def upstream(deployment: JointDeployment, name: str, minute: int, number: int, **changes: Any) -> httpx.Response:
    info = {
        "inferenceNumber": number,
        "hardExampleNumber": 1,
        "uploadCloudRatio": 0.1,
        "startTime": "2020-11-03T08:39:22.517Z",
        "currentTime": f"2020-11-03T08:{minute}:22.517Z",
    }
    body = {"phase": "inference", "status": "running", "output": {"models": [], "taskInfo": info}, **changes}
    return deployment.http.post(f"/default/neptune/upstream/jointinferenceservices/{name}/status", json=body)


def test_a_status_from_below_shows_in_the_metrics_and_an_older_one_is_ignored(deployment: JointDeployment) -> None:
    deployment.apply(digits_service("told", edge="nobody"))
    assert upstream(deployment, "told", 50, 1000).json() == {"Status": 200, "Message": "OK"}
    deployment.when("told", lambda record: metrics(record).get("inferenceNumber") == "1000")
    assert upstream(deployment, "told", 40, 7).status_code == 200
    assert upstream(deployment, "told", 55, 1001).status_code == 200
    record = deployment.when("told", lambda record: metrics(record)["inferenceNumber"] != "1000")
    assert metrics(record)["inferenceNumber"] == "1001"
    assert metrics(record)["uploadCloudRatio"] == "0.1"
    assert upstream(deployment, "unknown", 50, 1).status_code == 404
    assert upstream(deployment, "told", 56, -1).status_code == 422
    assert upstream(deployment, "told", 56, 1, status="dancing").status_code == 422
    assert upstream(deployment, "told", 56, 1, output={}).status_code == 422
    damaged = deployment.http.post("/default/neptune/upstream/jointinferenceservices/told/status", content=b"{")
    assert damaged.status_code == 400
    deployment.remove("told")


# --- the agent's own server --------------------------------------------------------------------------------
def test_the_agents_server_takes_what_a_worker_says_and_refuses_what_is_not_its_own(
    deployment: JointDeployment, standing: str
) -> None:
    agent = deployment.agents["edge0"].url
    body = {
        "name": "standing-edge",
        "namespace": "default",
        "ownerName": standing,
        "ownerKind": "jointinferenceservice",
        "kind": "inference",
        "status": "running",
        "taskInfo": {
            "inferenceNumber": 1000,
            "hardExampleNumber": 100,
            "uploadCloudRatio": 0.1,
            "startTime": "2020-11-03T08:39:22.517Z",
            "updateTime": "2020-11-03T08:50:22.517Z",
        },
    }
    info = f"{agent}/neptune/workers/standing-edge/info"
    assert httpx.post(info, json=body).json() == {"Status": 200, "Message": "OK"}
    assert httpx.post(info, json={**body, "name": "other"}).status_code == 400
    assert httpx.post(info, json={**body, "ownerKind": "pod"}).status_code == 400
    assert httpx.post(info, json={**body, "ownerInfo": body["taskInfo"]}).status_code == 200
    assert httpx.post(f"{agent}/neptune/workers/nobody/info", json={**body, "name": "nobody"}).status_code == 404
    service = deployment.service(standing)["resource"]
    place = f"{agent}/default/neptune/downstream/jointinferenceservices/{standing}"
    assert httpx.post(f"{place}/update", json=service).json() == {"Status": 200, "Message": "OK"}
    other = {**service, "metadata": {**service["metadata"], "name": "other"}}
    assert httpx.post(f"{place}/update", json=other).status_code == 400


def test_a_stalled_big_model_does_not_hold_up_what_the_edge_sees(
    deployment: JointDeployment, digits: list[bytes]
) -> None:
    """The frames of a stream go on while nothing comes back from the cloud."""
    folder = deployment.deployment.folder / "stream"
    folder.mkdir()
    for number, picture in enumerate(digits[:50]):
        (folder / f"{number:03}.png").write_bytes(picture)
    parameters = {"source": str(folder), "deadline_ms": "60000", "fps": "0", "queue_size": "4", "on_full": "drop"}
    deployment.apply(digits_service("stream", algorithm="EdgeOnly"))
    big = worker(deployment.reaches("stream", "Serving"), "cloud")["pid"]
    os.kill(big, signal.SIGSTOP)
    try:
        deployment.apply(digits_service("stream", parameters=parameters))
        record = deployment.when("stream", lambda record: metrics(record).get("inferenceNumber") == "50")
        assert metrics(record)["uploadNumber"] == "0"
        assert int(metrics(record)["hardExampleNumber"]) > 0
    finally:
        os.kill(big, signal.SIGCONT)
    assert worker(deployment.service("stream"), "cloud")["pid"] == big, (
        "a change of the edge is none of the cloud worker's"
    )
    deployment.remove("stream")


@pytest.mark.exhaustive  # the agent's own tests show it
def test_a_worker_that_is_to_live_once_stays_ended(deployment: JointDeployment) -> None:
    deployment.apply(digits_service("once", parameters={"restart_policy": "never"}))
    pid = worker(deployment.reaches("once", "Serving"), "edge")["pid"]
    os.kill(pid, signal.SIGKILL)
    record = deployment.reaches("once", "WorkerFailed")
    assert (record["resource"]["status"]["active"], record["resource"]["status"]["failed"]) == (1, 1)
    assert "exit code -9" in current(record)[2]
    deployment.remove("once")


@pytest.mark.exhaustive  # the store makes those that come at once
def test_services_that_are_made_at_once_are_all_there_and_all_go(deployment: JointDeployment) -> None:
    """A thousand are listed and paged in test_joint_interfaces."""

    def fill(start: int) -> None:
        with httpx.Client(base_url=deployment.deployment.url, timeout=60, trust_env=False) as http:
            for number in range(start, 60, 4):
                body = digits_service(f"many-{number}", edge="nobody", namespace="many")
                assert http.post("/api/v2/services", json=body).status_code == 201

    threads = [threading.Thread(target=fill, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    query = {"namespace": "many", "limit": 500}
    listed = deployment.http.get("/api/v2/services", params=query).json()["services"]
    names = {service["name"] for service in listed}
    assert names == {f"many-{number}" for number in range(60)}
    for name in names:
        deployment.delete(name, "many")
    until(
        lambda: deployment.http.get("/api/v2/services", params={"namespace": "many"}).json()["services"],
        lambda left: not left,
    )


# --- what works behind -----------------------------------------------------------------------------------
def test_calibrations_that_are_begun_at_once_are_all_done(deployment: JointDeployment, shared_data: Path) -> None:
    """By an actor with several threads, one after the other: the rest wait in the queue again."""
    deployment.apply(digits_service("calibrated", edge="nobody"))
    files = {"samples": ("set.npz", (shared_data / "images/digits_test.npz").read_bytes())}
    calibrate = "/ui/services/default/calibrated/calibrate"
    begun = [deployment.http.post(calibrate, files=files, headers=OURS) for _ in range(3)]
    pages = [answer.headers["location"] for answer in begun]
    until(lambda: [deployment.http.get(page).text.count(">Ready<") for page in pages], all)
    deployment.remove("calibrated")


@pytest.mark.exhaustive  # the leases' contract shows it
def test_of_those_who_watch_the_nodes_another_goes_on_when_one_is_told_to_end(deployment: JointDeployment) -> None:
    redis, controller = deployment.deployment.redis, deployment.controller
    assert controller is not None
    log = deployment.deployment.folder / f"{deployment.deployment.processes.index(controller)}.log"
    taken, before = until(lambda: redis.get(LEASE)), len(log.read_text())
    controller.terminate()
    controller.wait(PATIENCE_S)
    assert redis.get(LEASE) is None
    deployment.control()
    deployment.watch_nodes()
    until(lambda: redis.get(LEASE), lambda lease: lease not in (None, taken))
    assert "Traceback" not in log.read_text()[before:], log.read_text()
