"""What nodes are ordered to deliver themselves, and what is shown of it."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from app.accounts.model import Role
from app.bootstrap import node_sinks
from app.nodes.model import Operation
from app.results.errors import BadSink
from app.results.model.rule import Rule, RuleSet
from app.results.model.sink import NODE_SINKS, SentBy, Sink, SinkContent, SinkKind, SinkOrder, SinkProgress
from app.results.store import sink_trouble
from app.video.model.job import JOBS, VideoJob
from tests.harness.until import until
from tests.harness.users import OURS, Within
from tests.harness.video.nodes import USER, Env
from tests.harness.video.sinks import add, deliver, producer_in, sinks_of, state, take

LAN = "mqtt://mill:secret@192.168.1.5/cameras/door"


def at_node(env: Env, uid: str, kind: SinkKind = SinkKind.MQTT, address: str = LAN, **other: Any) -> Sink:
    return add(env, uid, kind, address, sent_by=SentBy.NODE, **other)


def ordered(env: Env, uid: str) -> SinkOrder | None:
    """Of edge0, where the job runs."""
    present = [order for order in env.orders(NODE_SINKS, uid) if order.operation is not Operation.DELETE]
    assert {order.node for order in present} <= {"edge0"}
    return SinkOrder.from_json(present[0].content) if present else None


def report(env: Env, sink: Sink, **progress: Any) -> None:
    env.sinks = {**env.sinks, sink.sink_id: SinkProgress(**progress)}
    env.report()


def test_the_node_of_a_job_is_ordered_its_sinks_and_rules_and_nobody_else_delivers(env: Env, job: VideoJob) -> None:
    sink = at_node(env, job.uid)
    order = ordered(env, job.uid)
    assert order is not None
    assert (order.producer.place, order.producer.facts["job"]) == (f"/api/v2/video/jobs/{job.uid}", job.uid)
    assert [(one.sink_id, one.address, one.content) for one in order.sinks] == [(sink.sink_id, LAN, SinkContent.ROWS)]
    assert ([rule.name for rule in order.rules.rules], order.is_paused) == (["come"], False)
    take(env, job.uid, 2, 3)
    deliver(env, job.uid)
    assert state(env, job.uid) == ("idle", 0, 0, "")
    env.rules.put(env.producer(job.uid), RuleSet((), (Rule("go"),)))
    order = ordered(env, job.uid)
    assert order is not None and [rule.name for rule in order.rules.rules] == ["go"]
    env.container.results.sinks.remove(producer_in(env, job.uid), sink.sink_id)
    assert ordered(env, job.uid) is None


def test_what_the_node_reports_is_shown(env: Env, job: VideoJob, web: Within) -> None:
    sink = at_node(env, job.uid)
    report(env, sink, delivered=7, delivered_at="2026-11-29T12:00:00.000Z", queued=3, lost=2)
    assert state(env, job.uid) == ("delivering", 7, 3, "")
    before = env.orders(NODE_SINKS, job.uid)
    env.container.node_sinks.reconcile_all()
    assert env.orders(NODE_SINKS, job.uid) == before, "what is reported changes no order"
    report(env, sink, delivered=7, tries=9, problem="the broker: Connection refused", queued=12_000, lost=2)
    assert state(env, job.uid) == ("failing", 7, 10_000, "the broker: Connection refused")
    (one,) = sinks_of(env, job.uid)
    assert (one.lost, list(one.by_node)) == (2, ["edge0"])
    with env.container.database.read() as conn:
        assert "Connection refused" in sink_trouble(conn, job.uid)
    shown = web.get(f"/ui/video/{job.uid}/sinks").text
    assert "2 lost" in shown and "12,000" not in shown and "10,000+" in shown and ">edge0<" in shown
    (listed,) = web.get(f"/api/v2/video/jobs/{job.uid}/sinks").json()["sinks"]
    assert (listed["sent_by"], listed["nodes"], listed["lost"], listed["backlog"]) == ("node", ["edge0"], 2, 10_000)
    report(env, Sink("f" * 32, "", SinkKind.MQTT, SinkContent.ROWS, "", "", "", 0), delivered=1)
    assert state(env, job.uid)[0] == "failing", "of a sink that is not there nothing is kept"


def test_a_test_waits_for_the_nodes_answer(env: Env, job: VideoJob, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = at_node(env, job.uid)
    answers = list[str]()

    def begin() -> threading.Thread:
        def run() -> None:
            answers.append(env.container.results.sinks.test(producer_in(env, job.uid), sink.sink_id, now=env.now))

        thread = threading.Thread(target=run)
        thread.start()
        return thread

    for problem in ("", "the broker: Connection refused"):
        former = _test_id(env, job.uid)
        thread = begin()
        until(lambda: _test_id(env, job.uid) != former)  # noqa: B023  # called within the loop
        report(env, sink, test_id=_test_id(env, job.uid), test_problem=problem)
        thread.join()
        assert answers.pop() == problem
    monkeypatch.setattr(node_sinks, "TEST_S", 0.2)
    begin().join()
    assert answers.pop() == "no answer of edge0 within 0.2 s"


def _test_id(env: Env, uid: str) -> str:
    order = ordered(env, uid)
    assert order is not None
    return order.sinks[0].test_id


def test_it_waits_for_a_disabled_user_and_ends_with_the_job(env: Env, job: VideoJob) -> None:
    at_node(env, job.uid)
    env.container.accounts.users.create("admin", Role.ADMIN, by="test")
    for is_enabled in (False, True):
        env.container.accounts.users.change(USER, is_enabled=is_enabled, by="test")
        env.container.node_sinks.reconcile_all()
        order = ordered(env, job.uid)
        assert order is not None and order.is_paused is not is_enabled
    env.jobs.cancel(USER, job.uid, now=env.now)
    env.settle()
    assert not [order for order in env.orders(JOBS, job.uid) if order.operation is not Operation.DELETE]
    env.container.node_sinks.reconcile_all()
    assert ordered(env, job.uid) is not None, "what waits at the node is still delivered"
    env.jobs.forget([job.uid])
    env.container.node_sinks.reconcile_all()
    assert ordered(env, job.uid) is None


def test_who_sends_is_chosen_by_page_and_api(env: Env, job: VideoJob, web: Within) -> None:
    page, fields = f"/ui/video/{job.uid}/sinks", {"kind": "mqtt", "content": "events", "address": LAN}
    assert web.post(page, data=fields, headers=OURS).status_code == 403
    refused = web.post(page, data={**fields, "sent_by": "node", "kind": "file", "address": "datasets/a"}, headers=OURS)
    assert refused.status_code == 400 and '<option value="node" selected>' in refused.text
    assert web.post(page, data={**fields, "sent_by": "x"}, headers=OURS).status_code == 422
    web.post(page, data={**fields, "sent_by": "node"}, headers=OURS)
    made = web.post(f"/api/v2/video/jobs/{job.uid}/sinks", json={**fields, "content": "rows", "sent_by": "node"})
    assert (made.status_code, made.json()["sent_by"], made.json()["nodes"]) == (201, "node", [])
    assert {one.content: one.sent_by for one in sinks_of(env, job.uid)} == dict.fromkeys(SinkContent, SentBy.NODE)
    order = ordered(env, job.uid)
    assert order is not None and len(order.sinks) == 2
    assert web.get(page).text.count("not reported yet") == 2


def test_a_node_writes_no_files_and_checks_networks_itself(env: Env, job: VideoJob) -> None:
    with pytest.raises(BadSink, match="no files"):
        at_node(env, job.uid, SinkKind.FILE, "datasets/door")
    for kind, address in (
        (SinkKind.HTTP, "http://10.0.0.7/rows"),
        (SinkKind.REDIS, "redis://192.168.1.5/0/door"),
        (SinkKind.HOME_ASSISTANT, "mqtt://[fd00::1]/door"),
    ):
        assert at_node(env, job.uid, kind, address).sent_by is SentBy.NODE
