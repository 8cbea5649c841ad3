"""Rows and events are delivered in order, at least once, also after a receiver was away; programs and pages."""

from __future__ import annotations

import json
import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook

from app.accounts.model import Role
from app.results import store
from app.results.metrics import SinkCollector
from app.results.model import sink as sink_model
from app.results.model.sink import MOST_SINKS, SinkContent, SinkKind
from app.results.senders.http import HttpSender
from app.results.service import sinks as sink_service
from app.video.model.job import VideoJob
from tests.harness.http_server import respond, served
from tests.harness.mosquitto import PATIENCE_S, Mosquitto
from tests.harness.until import until
from tests.harness.users import OURS, Within
from tests.harness.video.nodes import USER, Env
from tests.harness.video.sinks import Receiver, add, deliver, due, producer_in, sinks_of, state, take, take_large


def test_rows_from_then_on_go_by_http_in_order_and_signed(env: Env, job: VideoJob, receiver: Receiver) -> None:
    sink = add(env, job.uid, SinkKind.HTTP, receiver.url)
    take(env, job.uid, 2, 3)
    deliver(env, job.uid)
    ((headers, body),) = receiver.requests
    Webhook(sink.secret).verify(body, headers)
    assert headers["content-type"] == "application/cloudevents-batch+json"
    first, second = json.loads(body)
    assert (first["specversion"], first["id"], first["source"]) == ("1.0", "row/2", f"/api/v2/video/jobs/{job.uid}")
    assert first["data"]["objects"] == [{"label": "person", "score": 0.9, "bbox": [10.0, 20.0, 30.0, 60.0], "id": 1}]
    assert first["data"]["counts"] == {"up": 2, "total": 4}
    assert first["data"]["size"] == [100, 100]
    assert second["id"] == "row/3"
    assert state(env, job.uid) == ("idle", 2, 0, "")
    deliver(env, job.uid)
    assert len(receiver.requests) == 1


def test_a_sink_that_is_down_gets_all_of_it_when_it_is_back(
    env: Env, job: VideoJob, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sink_model, "PARCELS", 2)
    add(env, job.uid, SinkKind.HTTP, receiver.url)
    take(env, job.uid, 2, 3)
    receiver.status = 503
    deliver(env, job.uid)
    assert state(env, job.uid) == ("failing", 0, 2, "it answered 503")
    assert scraped(env, job.uid) == {
        "modelmill_sink_delivered": 0,
        "modelmill_sink_failing": 1,
        "modelmill_sink_skipped": 0,
    }
    env.container.results.sinks.deliver_due()
    assert len(receiver.requests) == 1, "it has a pause"
    take(env, job.uid, 4, 5, 6)
    receiver.status = 200
    receiver.requests.clear()
    deliver(env, job.uid)
    assert [[one["id"] for one in json.loads(body)] for _, body in receiver.requests] == [
        ["row/2"],
        ["row/3", "row/4"],
        ["row/5", "row/6"],
    ]
    assert state(env, job.uid) == ("idle", 5, 0, "")
    assert scraped(env, job.uid) == {
        "modelmill_sink_delivered": 5,
        "modelmill_sink_failing": 0,
        "modelmill_sink_skipped": 0,
    }


def test_a_receiver_that_takes_few_at_once_gets_fewer_until_it_takes_them(
    env: Env, job: VideoJob, receiver: Receiver
) -> None:
    add(env, job.uid, SinkKind.HTTP, receiver.url)
    take(env, job.uid, *range(2, 10))
    receiver.most_bytes = 2000
    deliver(env, job.uid)
    assert state(env, job.uid) == ("idle", 8, 0, "")
    assert sinks_of(env, job.uid)[0].skipped == 0


def test_a_row_too_large_for_the_receiver_is_left_out_and_counted_and_the_others_go_on(
    env: Env, job: VideoJob, receiver: Receiver
) -> None:
    sink = add(env, job.uid, SinkKind.HTTP, receiver.url)
    receiver.most_bytes = 3000
    take(env, job.uid, *range(2, 20))
    take_large(env, job.uid, 20, 100)
    take_large(env, job.uid, 21, 100)
    take(env, job.uid, *range(22, 30))
    deliver(env, job.uid)
    assert state(env, job.uid) == ("idle", 26, 0, "")
    taken = [json.loads(body) for _, body in receiver.requests if len(body) <= receiver.most_bytes]
    assert [one["id"] for body in taken for one in body] == [f"row/{n}" for n in range(2, 30) if n not in (20, 21)]
    refused = [body for _, body in receiver.requests if len(body) > receiver.most_bytes]
    assert len([body for body in refused if '"row/21"' in body]) <= 10, "the second one is tried alone at once"
    (kept,) = sinks_of(env, job.uid)
    assert kept.skipped == 2
    assert kept.skip_reason.startswith("row/21, ") and kept.skip_reason.endswith(" it answered 413")
    assert scraped(env, job.uid)["modelmill_sink_skipped"] == 2
    assert env.container.results.sinks.test(producer_in(env, job.uid), sink.sink_id, now=env.now) == ""
    receiver.most_bytes = 10
    assert "413" in env.container.results.sinks.test(producer_in(env, job.uid), sink.sink_id, now=env.now)


def scraped(env: Env, uid: str) -> dict[str, float]:
    """What /metrics has of the sink of this job."""
    families = SinkCollector(env.container.database).collect()
    samples = ((family.name, sample) for family in families for sample in family.samples)
    return {name: sample.value for name, sample in samples if sample.labels["producer"] == uid}


def test_a_disabled_users_sinks_wait(env: Env, job: VideoJob, receiver: Receiver) -> None:
    env.container.accounts.users.create("admin", Role.ADMIN, by="test")
    add(env, job.uid, SinkKind.HTTP, receiver.url)
    take(env, job.uid, 2)
    env.container.accounts.users.change(USER, is_enabled=False, by="test")
    deliver(env, job.uid)
    assert state(env, job.uid) == ("failing", 0, 1, "its user is disabled")
    env.container.accounts.users.change(USER, is_enabled=True, by="test")
    deliver(env, job.uid)
    assert state(env, job.uid) == ("idle", 1, 0, "")
    assert len(receiver.requests) == 1


def test_one_that_is_not_there_holds_up_no_other(env: Env, job: VideoJob, receiver: Receiver) -> None:
    add(env, job.uid, SinkKind.HTTP, "http://127.0.0.1:1/")
    env.later(1)
    add(env, job.uid, SinkKind.HTTP, receiver.url)
    take(env, job.uid, 2)
    deliver(env, job.uid)
    down, up = sinks_of(env, job.uid)
    assert (down.word, up.word) == ("failing", "idle")
    assert down.problem


def test_slow_receivers_delay_no_other(env: Env, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many of them as are tried at once: when one answers, another sink comes before it gets more."""
    monkeypatch.setattr(sink_model, "PARCELS", 1)
    monkeypatch.setattr(sink_service, "AT_ONCE", 3)
    sinks = env.container.results.sinks
    patient = HttpSender(sinks.networks, try_s=PATIENCE_S)
    monkeypatch.setitem(sinks.senders, SinkKind.HTTP, patient)  # type: ignore[arg-type]
    slow, quick = env.running(), env.running()
    may_answer, requests = threading.Semaphore(0), queue.Queue[bytes]()

    def hang(request: BaseHTTPRequestHandler, body: bytes) -> None:
        requests.put(body)
        may_answer.acquire()
        respond(request)

    with served(hang) as url, ThreadPoolExecutor(1) as pool:
        for name in ("one", "two"):
            add(env, slow.uid, SinkKind.HTTP, f"{url}/{name}")
        take(env, slow.uid, 1, 2, 3)
        due(env, slow.uid)
        delivering = pool.submit(sinks.deliver_due)
        try:
            for _ in range(2):
                requests.get(timeout=PATIENCE_S)
            add(env, quick.uid, SinkKind.HTTP, receiver.url)
            take(env, quick.uid, 1)
            due(env, quick.uid)
            until(lambda: len(receiver.requests) == 1, what="it had a place")
            add(env, slow.uid, SinkKind.HTTP, f"{url}/three")
            take(env, slow.uid, 4)
            due(env, slow.uid)
            requests.get(timeout=PATIENCE_S)
            take(env, quick.uid, 2)
            due(env, quick.uid)
            may_answer.release()
            until(lambda: len(receiver.requests) == 2, what="it came before one that had had its turn")
        finally:
            may_answer.release(100)
        assert delivering.result() == 2 + 4 + 4 + 1
    assert [sink.delivered for sink in sinks_of(env, slow.uid)] == [4, 4, 1]


def test_a_fault_of_ours_is_told_and_holds_up_no_other(
    env: Env, job: VideoJob, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(env.container.results.sinks.senders, SinkKind.MQTT, None)
    add(env, job.uid, SinkKind.MQTT, "mqtt://127.0.0.1/a")
    env.later(1)
    add(env, job.uid, SinkKind.HTTP, receiver.url)
    take(env, job.uid, 2)
    deliver(env, job.uid)
    broken, good = sinks_of(env, job.uid)
    assert (broken.problem, good.word) == ("a fault of this service: AttributeError", "idle")


def test_rows_that_have_gone_are_not_looked_for_again_and_again(env: Env, job: VideoJob) -> None:
    add(env, job.uid, SinkKind.HTTP, "http://127.0.0.1:1/")
    take(env, job.uid, 2)
    env.container.results.rows.forget_old(env.now + timedelta(days=400))
    due(env, job.uid)
    assert env.container.results.sinks.deliver_due() == 0
    assert state(env, job.uid) == ("idle", 0, 0, "")


def test_events_go_there_and_not_rows(env: Env, job: VideoJob, receiver: Receiver) -> None:
    add(env, job.uid, SinkKind.HTTP, receiver.url, SinkContent.EVENTS)
    take(env, job.uid, 2, 3, 4)
    deliver(env, job.uid)
    ((_, body),) = receiver.requests
    assert [(one["type"], one["data"]["rule"], one["data"]["text"]) for one in json.loads(body)] == [
        ("modelmill.video.event", "come", "person")
    ] * 2


def test_what_was_lost_between_delivery_and_note_is_delivered_again(
    env: Env, job: VideoJob, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(env, job.uid, SinkKind.HTTP, receiver.url)
    take(env, job.uid, 2)
    with monkeypatch.context() as patched:
        patched.setattr(env.container.results.sinks, "_record_change", _killed)
        with pytest.raises(KeyboardInterrupt):
            deliver(env, job.uid)
    deliver(env, job.uid)
    assert [json.loads(body)[0]["id"] for _, body in receiver.requests] == ["row/2", "row/2"]


def _killed(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


def test_a_job_that_has_ended_delivers_the_rest_and_is_forgotten_with_its_sinks(
    env: Env, job: VideoJob, receiver: Receiver
) -> None:
    add(env, job.uid, SinkKind.HTTP, receiver.url)
    take(env, job.uid, 2)
    env.jobs.cancel(USER, job.uid, now=env.now)
    deliver(env, job.uid)
    assert state(env, job.uid) == ("idle", 1, 0, "")
    env.jobs.delete(USER, job.uid)
    with env.container.database.read() as conn:
        assert store.sinks_of(conn, job.uid) == []


def test_whoever_delivers_is_woken_by_rows_of_jobs_that_have_a_sink(
    env: Env, job: VideoJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[bool] = []
    monkeypatch.setattr(env.reports, "wake_sinks", lambda: woken.append(True))
    take(env, job.uid, 2)
    assert not woken
    add(env, job.uid, SinkKind.HTTP, "http://127.0.0.1:1/")
    take(env, job.uid, 3)
    assert woken == [True]


def test_a_test_goes_at_once_and_its_answer_is_shown(
    web: Within, env: Env, job: VideoJob, receiver: Receiver, tmp_path: Path
) -> None:
    place, page = f"/api/v2/video/jobs/{job.uid}/sinks", f"/ui/video/{job.uid}/sinks"
    sink = add(env, job.uid, SinkKind.HTTP, receiver.url)
    take(env, job.uid, 2)
    answer = web.post(f"{place}/{sink.sink_id}/test")
    assert answer.json() == {"is_taken": True, "problem": ""}
    ((headers, body),) = receiver.requests
    Webhook(sink.secret).verify(body, headers)
    assert json.loads(body)[0]["type"] == "modelmill.video.test"
    assert state(env, job.uid) == ("delivering", 0, 1, ""), "what waits goes on waiting"
    receiver.status = 410
    assert web.post(f"{place}/{sink.sink_id}/test").json() == {"is_taken": False, "problem": "it answered 410"}
    shown = web.post(f"{page}/test", data={"sink_id": sink.sink_id}, headers=OURS).text
    assert "The test failed:" in shown and "it answered 410" in shown
    deliver(env, job.uid)
    shown = web.get(page).text
    assert all(words in shown for words in ("failing", "it answered 410", "1 failed attempt · It is sent again"))
    assert "對方回應 410" in web.get(page, headers={"accept-language": "zh-TW"}).text
    assert web.post(f"{place}/{'0' * 32}/test").status_code == 404
    with Mosquitto(tmp_path) as broker:
        messages = broker.subscribe("#")
        for kind in (SinkKind.MQTT, SinkKind.HOME_ASSISTANT):
            sink = add(env, job.uid, kind, f"mqtt://127.0.0.1:{broker.port}/a")
            assert env.container.results.sinks.test(producer_in(env, job.uid), sink.sink_id, now=env.now) == ""
        topics = [messages.get(timeout=PATIENCE_S).topic for _ in range(2)]
    assert topics == ["a", "a/test"]


def test_programs_add_list_and_remove_sinks(web: Within, job: VideoJob) -> None:
    place = f"/api/v2/video/jobs/{job.uid}/sinks"
    body = {"kind": "mqtt", "address": "mqtts://me:secret@127.0.0.1/a/b", "content": "rows"}
    made = web.post(place, json=body)
    assert made.status_code == 201
    assert made.json()["address"] == "mqtts://me:***@127.0.0.1/a/b"
    (listed,) = web.get(place).json()["sinks"]
    assert (listed["state"], listed["backlog"], listed["delivered_at"]) == ("idle", 0, None)
    assert "secret" not in listed
    assert web.request("DELETE", made.headers["location"]).status_code == 204
    for refused in (web.request("DELETE", made.headers["location"]), web.post(f"{made.headers['location']}/test")):
        assert refused.status_code == 404 and made.json()["sink_id"] in refused.json()["error"]["message"]
    for _ in range(MOST_SINKS):
        assert web.post(place, json=body).status_code == 201
    full = web.post(place, json=body)
    assert full.status_code == 429 and f"at most {MOST_SINKS} sinks" in full.json()["error"]["message"]
    assert len(web.get(place).json()["sinks"]) == MOST_SINKS


def test_the_page_adds_shows_and_removes_sinks(web: Within, env: Env, job: VideoJob) -> None:
    page = f"/ui/video/{job.uid}/sinks"
    fields = {"kind": "http", "content": "rows", "address": "http://127.0.0.1:1/rows"}
    assert "whsec_" in web.post(page, data=fields, headers=OURS).text
    take(env, job.uid, 2)
    deliver(env, job.uid)
    shown = web.get(page).text
    assert "whsec_" not in shown
    assert "1 failed attempt" in shown
    refused = web.post(page, data={**fields, "kind": "mqtt"}, headers=OURS)
    assert refused.status_code == 400
    assert 'id="problem-address"' in refused.text
    assert fields["address"] in refused.text
    (one,) = sinks_of(env, job.uid)
    with env.container.database.write() as conn:
        store.change_sink(conn, one.sink_id, skipped=3, skip_reason="row/2, 1200000 bytes: it answered 413")
    shown = web.get(page).text
    assert "3 left out" in shown and "row/2, 1200000 bytes: it answered 413" in shown
    (listed,) = web.get(f"/api/v2/video/jobs/{job.uid}/sinks").json()["sinks"]
    assert (listed["skipped"], listed["skip_reason"][:6]) == (3, "row/2,")
    web.post(page, data={"kind": "file", "content": "rows", "address": "datasets/door"}, headers=OURS)
    web.post(f"{page}/remove", data={"sink_id": one.sink_id}, headers=OURS)
    for action in ("remove", "test"):  # on a page that was open before
        gone = web.post(f"{page}/{action}", data={"sink_id": one.sink_id}, headers=OURS)
        assert gone.status_code == 404 and "was removed meanwhile" in gone.text and "datasets/door" in gone.text
    assert [state.address for state in sinks_of(env, job.uid)] == ["datasets/door"]
