"""Rules of a service: given by page, API and command, judged as its nodes report rows, their events sent on."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from app.inference.prediction import Prediction
from app.joint_inference import store as joint_store
from app.joint_inference.metrics import JointCollector
from app.joint_inference.model.resource import Service
from app.joint_inference.model.tally import Sample, Source
from app.joint_inference.service.alerts import ALERT, CLEAR
from app.joint_inference.service.producers import producer_of_service
from app.joint_inference.service.row_report import RowReport
from app.kit.clock import to_text
from app.notifications.model import Kind
from app.notifications.service import NewTarget
from app.results import store as result_store
from app.results.model.rule import Rule, RuleSet
from app.results.model.schedule import Schedule, Weekday
from app.results.model.sink import STUCK_TRIES
from app.results.store import RuleEventFilter
from tests.harness.joint.answers import JPEG, env, place_of, service, take, web
from tests.harness.joint.nodes import Env
from tests.harness.mosquitto import PATIENCE_S, Mosquitto
from tests.harness.page_text import text_of
from tests.harness.users import OURS, Within

__all__ = ["env", "service", "web"]
PERSON = {"name": "person", "label": "person", "cooldown_s": 0}


def events(web: Within, service: Service) -> list[dict[str, Any]]:
    """Newest first."""
    answer: list[dict[str, Any]] = web.get(f"{place_of(service)}/rule-events").json()["events"]
    return answer


def test_rows_make_events_that_go_to_a_broker_and_to_the_users_targets(
    env: Env, web: Within, service: Service, tmp_path: Path
) -> None:
    """Each second row has a person."""
    place = place_of(service)
    assert web.get(f"{place}/rules").json() == {"zones": [], "rules": [], "problem": ""}
    assert web.request("PUT", f"{place}/rules", json={"rules": [PERSON]}).status_code == 200
    env.container.notifications.targets.add(env.user, NewTarget(Kind.WEBHOOK, "https://example.org/hook"))
    with Mosquitto(tmp_path) as broker:
        address = f"mqtt://127.0.0.1:{broker.port}/door"
        sink = {"kind": "mqtt", "address": address, "content": "events"}
        assert web.post(f"{place}/sinks", json=sink).status_code == 201
        messages = broker.subscribe("door")
        take(env, service, "first", 1, 1, 2)
        take(env, service, "first", 1, 1, 2)  # it had arrived
        assert env.container.results.sinks.deliver_due() == 1
        message = json.loads(messages.get(timeout=PATIENCE_S).payload)
    (event,) = events(web, service)
    assert (event["rule"], event["n_loop"], event["text"]) == ("person", 2, "person")
    assert event["objects"] == [{"label": "person", "score": 0.9, "bbox": [1.0, 2.0, 30.0, 40.0], "track": 1}]
    assert (message["type"], message["id"]) == ("modelmill.joint.event", f"event/{event['event_id']}")
    assert (message["source"], message["data"]["node"], message["data"]["rule"]) == (place, "edge0", "person")
    told = [one for one in env.container.notifications.outbox.newest(env.user) if one.event_kind == "service.event"]
    data = json.loads(told[0].body)["data"]
    assert (data["subject"], data["reason"]) == (f"service:{service.uid}", "person")
    assert data["url"].endswith(f"/ui/services/default/{service.name}/rules")
    page = web.get(f"/ui/services/default/{service.name}").text
    assert f"/ui/services/default/{service.name}/rules#events" in page


def sink_of(env: Env, web: Within, service: Service, address: str) -> Callable[..., None]:
    """Adds a sink by MQTT. Returns what changes its columns, as deliveries do."""
    body = {"kind": "mqtt", "address": address, "content": "rows"}
    sink_id = web.post(f"{place_of(service)}/sinks", json=body).json()["sink_id"]

    def change(**columns: Any) -> None:
        with env.container.database.write() as conn:
            result_store.change_sink(conn, sink_id, **columns)

    return change


def test_a_sink_that_is_stuck_degrades_its_service_and_the_user_is_told_once(
    env: Env, web: Within, service: Service
) -> None:
    target = env.container.notifications.targets.add(env.user, NewTarget(Kind.WEBHOOK, "https://example.org/alerts"))
    change = sink_of(env, web, service, "mqtt://me:secret@127.0.0.1:9/door")

    def after(minutes: float, **sink: Any) -> tuple[str, list[str]]:
        """The reason of its condition, and of which alerts its user was told."""
        if sink:
            change(**sink)
        env.now += timedelta(minutes=minutes)
        env.settle()
        told = [d for d in env.container.notifications.outbox.newest(env.user) if d.target_id == target.target_id]
        kinds = [
            d.event_kind for d in told if service.uid in d.body and d.event_kind in ("service.alert", "service.clear")
        ]
        condition = env.container.joint.services.get(env.user, "default", service.name).status["conditions"][-1]
        assert "secret" not in condition["message"]
        return condition["reason"], kinds

    assert after(0, tries=STUCK_TRIES - 1, problem="refused") == ("Serving", [])
    assert after(0, tries=STUCK_TRIES, problem="refused") == ("Degraded", [])
    assert after(4) == ("Degraded", []), "it may be over soon"
    assert after(2) == ("Degraded", ["service.alert"])
    assert after(9) == ("Degraded", ["service.alert"])
    assert after(0, tries=0, problem="") == ("Serving", ["service.clear", "service.alert"])
    with env.container.database.read() as conn:
        events = [event for event in joint_store.events_of(conn, service.uid, 9) if event.reason in (ALERT, CLEAR)]
    assert [event.reason for event in events] == [CLEAR, ALERT]
    assert events[1].message == "The sink 'mqtt://me:***@127.0.0.1:9/door' accepts nothing: refused."


def test_each_problem_of_a_service_is_told_when_it_has_lasted_and_when_it_is_over(
    env: Env, web: Within, service: Service
) -> None:
    target = env.container.notifications.targets.add(env.user, NewTarget(Kind.WEBHOOK, "https://example.org/problems"))
    change = sink_of(env, web, service, "mqtt://127.0.0.1:9/door")
    known = set[str]()

    def told(minutes: float, **sink: Any) -> list[tuple[str, list[str], list[str]]]:
        """Kind, what has begun or is over, and all that there is: of what is told after so many minutes more."""
        if sink:
            change(**sink)
        env.now += timedelta(minutes=minutes)
        env.settle()
        newest = env.container.notifications.outbox.newest(env.user, target_id=target.target_id)
        bodies = {one.delivery_id: json.loads(one.body) for one in newest if one.delivery_id not in known}
        known.update(bodies)
        facts = [(one["type"], one["data"]) for one in bodies.values() if service.uid in one["data"]["subject"]]
        return [
            (kind, data.get("begun") or data.get("over"), data["flags"])
            for kind, data in facts
            if kind in ("service.alert", "service.clear")
        ]

    assert told(0, tries=STUCK_TRIES, problem="refused") == []
    env.fail("cloud", log=("no",))
    assert told(4) == []
    assert told(1) == [("service.alert", ["sink"], ["sink"])]
    condition = env.container.joint.services.get(env.user, "default", service.name).status["conditions"][-1]
    assert "ended with exit code 1" in condition["message"] and "accepts nothing: refused." in condition["message"]
    assert told(4) == [("service.alert", ["cloud"], ["cloud", "sink"])]
    assert told(9) == []
    assert told(0, tries=0, problem="") == [("service.clear", ["sink"], ["cloud"])]
    env.heal("cloud")
    assert told(0) == [("service.clear", ["cloud"], [])]
    page = text_of(web.get(f"/ui/services/default/{service.name}"))
    assert "A problem is over; others remain" in page and "Everything works again" in page


def test_the_picture_of_an_event_is_the_sample_that_comes_with_it(env: Env, web: Within, service: Service) -> None:
    page = f"/ui/services/default/{service.name}"
    assert web.get(f"{page}/picture").headers["content-type"] == "image/svg+xml"
    web.request("PUT", f"{place_of(service)}/rules", json={"rules": [PERSON]})
    boxes = {"bbox": [[1.0, 2.0, 30.0, 40.0]], "labels": ["person"], "scores": [0.9], "size": [640, 480]}
    report = RowReport(run="now", batch=1, rows=[{"at": env.now.timestamp(), "sample": "a", **boxes}])
    env.container.joint.reports.add_rows("edge0", service.uid, report, now=env.now)
    assert events(web, service)[0]["links"] == {}
    sample = Sample("a", to_text(env.now), 640, 480, "unsure", 0.5, Source.CLOUD, Prediction())
    env.container.joint.samples.add("edge0", service.uid, sample, JPEG, "image/jpeg", now=env.now)
    (event,) = events(web, service)
    assert web.get(event["links"]["picture"]).content == JPEG
    assert web.get(f"{page}/rule-events/{event['event_id']}/picture").content == JPEG
    assert web.get(f"{page}/picture").content == JPEG
    assert f'src="{page}/picture"' in web.get(f"{page}/rules").text
    assert web.get(f"{page}/picture", params={"source": "yard"}).headers["content-type"] == "image/svg+xml"
    missing = web.get(f"{place_of(service)}/rule-events/{event['event_id'] + 1}/picture")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "RULE_EVENT_NOT_FOUND")


def test_a_rule_with_a_schedule_is_made_on_the_page(env: Env, web: Within, service: Service) -> None:
    page = f"/ui/services/default/{service.name}"
    zone = {"zone_name": "door", "points": "0.1,0.1 0.9,0.1 0.9,0.9"}
    assert web.post(f"{page}/zones", data=zone, headers=OURS).status_code in (200, 303)
    fields = {"name": "night", "zone": "door", "fri": "on", "start": "22:00", "end": "06:00", "timezone": "Asia/Taipei"}
    assert web.post(f"{page}/rules", data=fields, headers=OURS).status_code in (200, 303)
    rules = env.container.joint.services.get(env.user, "default", service.name)
    kept = web.get(f"{place_of(rules)}/rules").json()["rules"]
    night = {"days": ["fri"], "start": "22:00", "end": "06:00", "timezone": "Asia/Taipei"}
    assert [one["schedule"] for one in kept] == [night]
    shown = web.get(f"{page}/rules", params={"edit": "night"}).text
    assert re.search(r'name="fri" checked', shown) and not re.search(r'name="mon" checked', shown)
    assert "22:00–06:00 Asia/Taipei" in shown
    wrong = web.post(f"{page}/rules", data={**fields, "start": "late"}, headers=OURS)
    assert wrong.status_code == 422
    assert 'id="problem-start"' in wrong.text and 'value="late"' in wrong.text
    unknown = web.post(f"{page}/rules", data={**fields, "timezone": "Mars"}, headers=OURS)
    assert unknown.status_code == 400 and "unknown time zone" in unknown.text
    always = {"name": "night", "timezone": "Asia/Taipei"}  # as a browser fills it in
    web.post(f"{page}/rules", data=always, headers=OURS)
    assert web.get(f"{place_of(service)}/rules").json()["rules"][0]["schedule"] is None


def test_rows_of_each_origin_are_judged_for_themselves(env: Env, web: Within, service: Service) -> None:
    """Somebody who leaves one picture and comes into another crosses no line."""
    rules, made = env.container.results.rules, producer_of_service(service)
    only = Rule("only", source="yard", cooldown_s=0, schedule=Schedule((*Weekday,)))
    rules.put(made, RuleSet(rules=(Rule("any", cooldown_s=0), only)))
    boxes = {"bbox": [[1.0, 2.0, 30.0, 40.0]], "labels": ["person"], "scores": [0.9], "size": [640, 480]}
    rows = [{"at": env.now.timestamp() + n, "source": ("door", "yard")[n % 2], **boxes} for n in range(6)]
    env.container.joint.reports.add_rows("edge0", service.uid, RowReport(run="a", batch=1, rows=rows), now=env.now)
    kept = rules.events(made, RuleEventFilter(), newest_first=False, limit=10).events
    assert [(one.rule, one.source) for one in kept] == [("any", "door"), ("any", "yard"), ("only", "yard")]
    page = web.get(f"/ui/services/default/{service.name}/rules", params={"source": "yard"}).text
    assert "/picture?node=&amp;source=yard" in page and '<option value="yard" selected>' in page


@pytest.mark.parametrize("change", [{"rules": [{"name": "a", "schedule": {"days": []}}]}, {"rules": [{"name": "a b"}]}])
def test_what_cannot_be_changes_nothing(web: Within, service: Service, change: dict[str, Any]) -> None:
    place = f"{place_of(service)}/rules"
    assert web.request("PUT", place, json=change).status_code == 422
    assert web.get(place).json()["rules"] == []


def test_what_is_wrong_beside_a_change_that_is_not_carried_out_is_shown_and_told(
    env: Env, web: Within, service: Service
) -> None:
    target = env.container.notifications.targets.add(env.user, NewTarget(Kind.WEBHOOK, "https://example.org/stalled"))
    sink_of(env, web, service, "mqtt://127.0.0.1:9/door")(tries=STUCK_TRIES, problem="refused")
    env.fail("edge", log=())
    stream = {"reason": "SourceUnavailable", "message": "yard: cam is not reached.", "is_partial": True}
    detail = {"stream": stream, "sources": [{"name": "yard", "status": "no_signal", "since": "", "message": "gone"}]}
    env.failing["edge"] = replace(env.failing["edge"], former_generation=7, detail=detail)
    env.settle()
    env.now += timedelta(minutes=6)
    env.settle()
    record = web.get(place_of(service)).json()
    for message in (
        record["resource"]["status"]["conditions"][-1]["message"],
        text_of(web.get(f"/ui/services/default/{service.name}")),
        unescape(web.get("/ui/services").text),
    ):
        for text in ("cannot change to", "yard: cam is not reached.", "The sink 'mqtt://127.0.0.1:9/door' accepts"):
            assert text in message
    assert web.get(f"/ui/services/default/{service.name}").text.count("no signal") == 1
    newest = env.container.notifications.outbox.newest(env.user, target_id=target.target_id)
    told = [json.loads(one.body) for one in newest]
    assert [one["data"]["begun"] for one in told if one["type"] == "service.alert"] == [["sink", "source"]]
    collector = JointCollector(env.container.database, env.container.nodes, now=lambda: env.now)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    named = {"owner": env.user, "namespace": "default", "service": service.name, "node": "edge0", "source": "yard"}
    assert registry.get_sample_value("modelmill_joint_source_signal", named) == 0
