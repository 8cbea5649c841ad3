"""What services have answered: rows taken in once, looked through by API and page, handed on to a broker."""

from __future__ import annotations

import html
import importlib.util
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.inference.prediction import Box, Prediction
from app.joint_inference import store as service_store
from app.joint_inference.errors import ServiceNotFound
from app.joint_inference.metrics import JointCollector
from app.joint_inference.model.resource import Service
from app.joint_inference.model.tally import Sample, Source
from app.joint_inference.service.row_report import RowReport
from app.kit.clock import to_text
from app.results import store
from app.results.model.sink import SinkKind
from tests.harness.joint.answers import BEGIN, JPEG, env, place_of, row, service, take, web
from tests.harness.joint.nodes import Env, helmet
from tests.harness.mosquitto import PATIENCE_S, Mosquitto
from tests.harness.users import OURS, Within

__all__ = ["env", "service", "web"]


def test_each_report_is_taken_in_once_and_rows_are_numbered_over_all_workers(
    env: Env, web: Within, service: Service
) -> None:
    take(env, service, "first", 1, 1, 2)
    take(env, service, "first", 1, 1, 2)  # it had arrived, and its node did not know
    take(env, service, "first", 2, 3)
    take(env, service, "second", 1, 4)  # the worker was started anew
    rows = web.get(f"{place_of(service)}/rows").json()["rows"]
    assert [(one["n_loop"], one["row"]["sample"][-1]) for one in rows] == [(1, "1"), (2, "2"), (3, "3"), (4, "4")]
    assert rows[0]["at"].startswith("2026-09-21")


def test_a_node_that_does_not_run_it_adds_nothing(env: Env, web: Within, service: Service) -> None:
    with pytest.raises(ServiceNotFound):
        take(env, service, "first", 1, 1, node="elsewhere")
    assert web.get(f"{place_of(service)}/rows").json()["rows"] == []


def test_rows_are_found_by_class_and_given_as_files_and_shown(env: Env, web: Within, service: Service) -> None:
    take(env, service, "first", 1, *range(1, 7))
    people = web.get(f"{place_of(service)}/rows", params={"label": "person", "limit": 2}).json()
    assert [one["n_loop"] for one in people["rows"]] == [2, 4]
    rest = web.get(f"{place_of(service)}/rows", params={"label": "person", "cursor": people["next_cursor"]}).json()
    assert [one["n_loop"] for one in rest["rows"]] == [6]
    lines = web.get(f"{place_of(service)}/rows.csv").text.splitlines()
    assert len(lines) == 1 + 6
    assert [json.loads(line)["n_loop"] for line in web.get(f"{place_of(service)}/rows.jsonl").text.splitlines()] == [
        *range(1, 7)
    ]
    if importlib.util.find_spec("pyarrow"):
        assert web.get(f"{place_of(service)}/rows.parquet").content[:4] == b"PAR1"
    page = web.get(f"/ui/services/default/{service.name}/results", params={"label": "person"})
    assert page.text.count("<tr>") == 1 + 3
    assert f"{place_of(service)}/rows.csv?label=person" in page.text


def test_rows_go_to_a_broker_with_the_name_of_the_service(
    env: Env, web: Within, service: Service, tmp_path: Path
) -> None:
    take(env, service, "first", 1, 1)
    with Mosquitto(tmp_path) as broker:
        address = f"mqtt://127.0.0.1:{broker.port}/door"
        body = {"kind": "mqtt", "address": address, "content": "rows"}
        added = web.post(f"{place_of(service)}/sinks", json=body)
        assert added.status_code == 201, added.text
        messages = broker.subscribe("door")
        sinks = env.container.results.sinks
        test = web.post(f"{place_of(service)}/sinks/{added.json()['sink_id']}/test").json()
        assert test == {"is_taken": True, "problem": ""}
        assert json.loads(messages.get(timeout=PATIENCE_S).payload)["type"] == "modelmill.joint.test"
        take(env, service, "first", 2, 2, 3)
        assert sinks.deliver_due() >= 1
        events = [json.loads(messages.get(timeout=PATIENCE_S).payload) for _ in range(2)]
    assert [(one["type"], one["id"], one["source"]) for one in events] == [
        ("modelmill.joint.row", f"row/{n}", place_of(service)) for n in (2, 3)
    ]
    data = events[0]["data"]
    assert (data["service"], data["node"], data["model"]) == (f"default/{service.name}", "edge0", "small-model")
    assert (data["answered_by"], data["objects"][0]["label"], data["counts"]) == ("edge", "person", {})
    assert [(one["data"]["model_name"], one["data"]["model_version"]) for one in events] == [("small", 2), ("big", 2)]
    (state,) = web.get(f"{place_of(service)}/sinks").json()["sinks"]
    assert (state["state"], state["delivered"], state["backlog"]) == ("idle", 2, 0)


def test_home_assistant_sees_a_device_of_the_services_name(
    env: Env, web: Within, service: Service, tmp_path: Path
) -> None:
    with Mosquitto(tmp_path) as broker:
        body = {"kind": "home_assistant", "address": f"mqtt://127.0.0.1:{broker.port}/door", "content": "rows"}
        assert web.post(f"{place_of(service)}/sinks", json=body).status_code == 201
        take(env, service, "first", 1, 2)
        env.container.results.sinks.deliver_due()
        device = json.loads(broker.subscribe("homeassistant/#").get(timeout=PATIENCE_S).payload)["device"]
        state = json.loads(broker.subscribe("door/state").get(timeout=PATIENCE_S).payload)
    assert (device["name"], device["model"]) == (f"default/{service.name}", "Service")
    assert (state["objects"], state["labels"]) == (1, {"person": 1})


def test_rows_and_sinks_go_with_the_service(env: Env, web: Within) -> None:
    joint = env.container.joint
    made = joint.services.create(env.user, helmet("passing"), now=env.now)
    env.settle()
    take(env, made, "first", 1, 1)
    producer = joint.services.get(env.user, "default", "passing")
    web.post(f"{place_of(producer)}/sinks", json={"kind": "file", "address": "datasets/a", "content": "rows"})
    joint.services.delete(env.user, "default", "passing", now=env.now)
    env.settle()
    assert env.container.results.sinks.deliver_due() == 0
    with env.container.database.write() as conn:
        service_store.forget(conn, [made.uid])
        assert store.last_row(conn, made.uid) == 0
        assert not store.has_sinks(conn, made.uid)


def test_a_sink_is_added_tried_and_removed_on_the_page(web: Within, service: Service) -> None:
    page = f"/ui/services/default/{service.name}/sinks"
    added = web.post(
        page, data={"kind": SinkKind.FILE.value, "content": "rows", "address": "datasets/door"}, headers=OURS
    )
    assert added.status_code in (200, 303)
    (sink,) = web.get(f"{place_of(service)}/sinks").json()["sinks"]
    assert "The test was accepted." in web.post(f"{page}/test", data={"sink_id": sink["sink_id"]}, headers=OURS).text
    web.post(f"{page}/remove", data={"sink_id": sink["sink_id"]}, headers=OURS)
    assert web.get(f"{place_of(service)}/sinks").json()["sinks"] == []


def objects(env: Env, service: Service, batch: int, label: str, score: float) -> None:
    at = BEGIN + batch * 1000
    answers = [
        {**row(n), "at": at + n, "bbox": [[0.0, 0.0, 9.0, 9.0]], "labels": [label], "scores": [score]}
        for n in range(120)
    ]
    report = RowReport(run="drift", batch=batch, rows=answers)
    env.container.joint.reports.add_rows("edge0", service.uid, report, now=env.now)


def moment(after_s: float) -> str:
    return to_text(datetime.fromtimestamp(BEGIN + after_s, UTC))


def test_drift_against_a_time_is_shown_measured_and_told(env: Env, web: Within, service: Service) -> None:
    place, page = f"{place_of(service)}/drift", f"/ui/services/default/{service.name}"
    times = {"since": moment(0), "until": moment(1500)}
    assert web.get(place).json() == {"reference": None, "threshold": None, "measured": None}
    assert web.request("PUT", place, json=times, headers=OURS).json()["error"]["code"] == "NO_REFERENCE"
    for neither in ({}, {"since": times["since"]}, {**times, "calibration_id": "x"}):
        refused = web.request("PUT", place, json=neither, headers=OURS)
        assert refused.status_code == 422
        assert "either calibration_id, or since and until" in refused.json()["error"]["message"]
    objects(env, service, 1, "person", 0.9)
    watched = web.request("PUT", place, json=times, headers=OURS).json()
    assert (watched["reference"]["distribution"]["classes"], watched["measured"]["scores"]) == ({"person": 120}, None)
    monitor = env.container.drift
    objects(env, service, 2, "person", 0.9)
    monitor.measure_all(env.now)
    assert web.get(place).json()["measured"]["scores"] == 0
    for batch in range(3, 9):
        objects(env, service, batch, "cow", 0.2)
    monitor.measure_all(env.now)
    monitor.measure_all(env.now)
    env.settle()
    measured = web.get(place).json()["measured"]
    assert measured["is_above"]
    assert min(measured["scores"], measured["classes"]) > 0.25
    resource = web.get(place_of(service)).json()["resource"]
    (warning,) = [one for one in resource["status"]["conditions"] if one["type"] == "Warning"]
    assert (warning["reason"], warning["status"]) == ("Drift", "True")
    events = env.container.joint.services.events(env.user, "default", service.name)
    assert [event.reason for event in events].count("Drift") == 1, "told once"
    for path in (page, f"{page}/drift"):
        text = web.get(path).text
        assert "Scores (PSI)" in text
        assert "cow" in text
    families = {family.name: family for family in JointCollector(env.container.database, env.container.nodes).collect()}
    assert {sample.labels["of"] for sample in families["modelmill_joint_drift"].samples} == {"scores", "classes"}
    for wrong, sentence in (
        ({"since": "yesterday", "until": "2026-11-20T18:00:00Z"}, "時間需有日期"),
        ({"since": "2026-11-20T18:00:00Z", "until": ""}, "或時間範圍的起訖"),
        ({"calibration_id": "x", "threshold": "-1"}, "大於 0"),
        ({"since": moment(-2), "until": moment(-1)}, "請選擇較長的時間"),
        ({"calibration_id": "x", "unknown": "1"}, "unknown"),
    ):
        refused = web.post(f"{page}/drift", headers={**OURS, "Accept-Language": "zh-TW"}, data=wrong)
        assert refused.status_code == 422 and sentence in refused.text
    assert web.post(f"{page}/drift/stop", headers=OURS).status_code in (200, 303)
    env.settle()
    assert web.get(place).json()["reference"] is None
    assert "Scores (PSI)" not in web.get(page).text


def collecting(env: Env, name: str, folder: str) -> Service:
    resource = helmet(name)
    resource["spec"]["edgeWorker"]["workerSpec"]["parameters"] = [{"key": "collect", "value": folder}]
    made = env.container.joint.services.create(env.user, resource, now=env.now)
    env.settle()
    return made


def show(env: Env, service: Service, id: str, dhash: str) -> None:
    boxes = Prediction(boxes=(Box(100, 50, 300, 150, 0.9, 0),))
    extra = {"dhash": dhash, "preview": [320, 240]}
    sample = Sample(id, "2026-11-26T12:00:00.000Z", 640, 480, "unsure", 0.5, Source.CLOUD, boxes, boxes, extra=extra)
    env.container.joint.samples.add("edge0", service.uid, sample, JPEG, "image/jpeg", now=env.now)


def test_hard_samples_are_kept_in_the_data_home_without_those_that_look_alike(env: Env) -> None:
    service = collecting(env, "collects", "datasets/door")
    for id, dhash in (("1", "0" * 16), ("2", "0" * 15 + "1"), ("3", "f" * 16)):
        show(env, service, id, dhash)
    homes = env.container.homes.files
    kept = json.loads(b"".join(homes.read(env.user, "datasets/door/annotations.json")))
    assert [image["file_name"] for image in kept["images"]] == ["images/000001.jpg", "images/000002.jpg"]
    assert [one["bbox"] for one in kept["annotations"]] == [[50.0, 25.0, 100.0, 50.0]] * 2
    assert b"".join(homes.read(env.user, "datasets/door/images/000002.jpg")) == JPEG


def test_hard_samples_that_come_at_once_are_all_kept(env: Env) -> None:
    service = collecting(env, "crowded", "datasets/yard")
    with ThreadPoolExecutor(8) as nodes:
        list(nodes.map(lambda digit: show(env, service, digit, digit * 16), "0123456789abcdef"))
    kept = json.loads(b"".join(env.container.homes.files.read(env.user, "datasets/yard/annotations.json")))
    assert len({image["file_name"] for image in kept["images"]}) == 16


def test_kept_hard_samples_go_to_a_calibration_and_to_a_training_with_one_click(env: Env, web: Within) -> None:
    service = collecting(env, "sends", "datasets/gate")
    place, page = f"{place_of(service)}/calibrations", "/ui/services/default/sends"
    nothing = web.post(place, json={}, headers=OURS)
    assert (nothing.status_code, nothing.json()["error"]["code"]) == (422, "BAD_SAMPLES")
    show(env, service, "1", "0" * 16)
    made = web.post(place, json={}, headers=OURS)
    assert (made.status_code, made.json()["samples"], made.json()["state"]) == (201, "datasets/gate", "WAITING")
    assert web.get(made.headers["location"]).json()["settings"] == []
    shown = web.get(page).text
    assert f"{page}/calibrate/collected" in shown
    assert web.post(f"{page}/calibrate/collected", headers=OURS).status_code in (200, 303)
    assert [one["samples"] for one in web.get(place).json()["calibrations"]] == ["datasets/gate"] * 2
    (link,) = re.findall(r'href="(/ui/tasks/new[^"]+)"', shown)
    form = web.get(html.unescape(link)).text
    assert re.search(r'value="[^"]*/datasets/gate/annotations\.json"', form) or "off" in form.lower()


@pytest.mark.parametrize("folder", ["jobs/mine", "../elsewhere"])
def test_why_a_hard_sample_was_not_kept_is_an_event_once(env: Env, folder: str) -> None:
    service = collecting(env, f"refused-{len(folder)}", folder)
    for id in ("1", "2"):
        show(env, service, id, "0" * 16)
    joint = env.container.joint
    events = joint.services.events(env.user, "default", service.name)
    assert [event.reason for event in events].count("NotCollected") == 1
    assert len(joint.samples.of(env.user, "default", service.name)) == 2, "the page shows them all the same"
