"""What a service should be, against what its nodes report."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest

from app.inference.model_card import Format, ModelCard
from app.joint_inference.model.fleet import fleet_condition
from app.joint_inference.model.reconciliation import ObservedState, ServicePlan, find_kept_model, key_of, plan_service
from app.joint_inference.model.resource import Role, Service
from app.joint_inference.model.status import Condition, ConditionType, Reason, conditions_after
from app.joint_inference.pages.view_models import worker_of
from app.joint_inference.service.worker_views import worker_view
from app.kit.clock import to_text
from app.kit.web.languages import CHINESE
from app.kit.web.written_texts import filters
from app.nodes.model import Node, NodeReport, Operation, Order, Side, WorkerReport, WorkerState

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
WORKER = {"scriptDir": "", "scriptBootFile": "", "frameworkType": "onnx", "frameworkVersion": "1"}
SPEC: dict[str, Any] = {
    "edgeWorker": {
        "name": "little",
        "model": {"name": "small"},
        "nodeName": "edge0",
        "hardExampleAlgorithm": {"name": "IBT"},
        "workerSpec": WORKER,
    },
    "cloudWorker": {"name": "big", "model": {"name": "large"}, "nodeName": "cloud0", "workerSpec": WORKER},
}
SERVICE = Service(
    uid="u",
    owner="alice",
    namespace="default",
    name="gate",
    generation=2,
    version=7,
    created_at=to_text(NOW),
    spec=SPEC,
    status={},
    secret="s3cret",
)
SMALL, LARGE = (ModelCard(name, Format.ONNX, "0" * 64, 1) for name in ("small", "large"))


def node(name: str, *workers: WorkerReport, is_online: bool = True) -> Node:
    seen = NOW - timedelta(seconds=1 if is_online else 31)
    return Node(name, Side.HOST, to_text(NOW), last_seen_at=to_text(seen), report=NodeReport(workers=workers))


def worker(role: Role, state: WorkerState = WorkerState.RUNNING, **fields: Any) -> WorkerReport:
    fields = {"generation": 2, "address": "10.0.0.9:5000", **fields}
    return WorkerReport(key_of(SERVICE, role), "default", "gate", f"the-{role}", state=state, **fields)


def planned(edge: Node | None, cloud: Node | None, service: Service = SERVICE, **world: Any) -> ServicePlan:
    return plan_service(service, ObservedState(NOW, SMALL, LARGE, edge, cloud, **world))


def edge_order(generation: int = 2) -> Order:
    content = {"bigModel": {"url": "http://10.0.0.9:4000", "secret": "s3cret"}}
    key = key_of(SERVICE, Role.EDGE)
    return Order(1, "edge0", key, "default", "gate", Operation.INSERT, generation, content)


def test_the_cloud_worker_is_ordered_first() -> None:
    plan = planned(node("edge0"), node("cloud0"))
    assert {role for role, _ in plan.orders} == {Role.CLOUD}
    assert plan.orders[Role.CLOUD, "cloud0"].secret == "s3cret"
    assert plan.condition.type is ConditionType.PENDING
    assert plan.condition.reason == Reason.CLOUD_STARTING


def test_the_edge_worker_is_ordered_once_the_big_model_serves_and_is_told_where() -> None:
    plan = planned(node("edge0"), node("cloud0", worker(Role.CLOUD)))
    big = plan.orders[Role.EDGE, "edge0"].big_model
    assert big is not None
    assert (big.url, big.secret) == ("http://10.0.0.9:5000", "s3cret")
    assert plan.condition.reason == Reason.EDGE_STARTING
    assert (plan.active, plan.failed) == (1, 0)


def test_a_cloud_worker_that_has_not_said_that_it_serves_is_no_address() -> None:
    plan = planned(node("edge0"), node("cloud0", worker(Role.CLOUD, WorkerState.STARTING)))
    assert (Role.EDGE, "edge0") not in plan.orders


def test_it_runs_when_both_serve() -> None:
    plan = planned(node("edge0", worker(Role.EDGE)), node("cloud0", worker(Role.CLOUD)))
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.RUNNING, Reason.SERVING)
    assert (plan.active, plan.failed) == (2, 0)


def test_what_is_reported_of_another_generation_does_not_count() -> None:
    old = worker(Role.CLOUD, generation=1)
    plan = planned(node("edge0", worker(Role.EDGE, generation=1)), node("cloud0", old))
    assert plan.active == 0
    assert plan.condition.reason == Reason.CLOUD_STARTING


def test_an_edge_worker_stays_where_it_is_while_the_cloud_is_away() -> None:
    edge, away = node("edge0", worker(Role.EDGE)), node("cloud0", worker(Role.CLOUD), is_online=False)
    plan = planned(edge, away, edge_order=edge_order())
    big = plan.orders[Role.EDGE, "edge0"].big_model
    assert big is not None
    assert big.url == "http://10.0.0.9:4000"
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.RUNNING, Reason.NODE_OFFLINE)
    assert "cloud0" in plan.condition.message


def test_an_order_of_the_last_generation_says_nothing_of_where_the_big_model_is() -> None:
    plan = planned(node("edge0"), node("cloud0"), edge_order=edge_order(generation=1))
    assert (Role.EDGE, "edge0") not in plan.orders


def test_a_breaker_that_is_open_shows_as_degraded_with_what_was_wrong() -> None:
    service = replace(SERVICE, reported={"breaker": "open", "lastError": "connection refused"})
    plan = planned(node("edge0", worker(Role.EDGE)), node("cloud0", worker(Role.CLOUD)), service)
    assert plan.condition.reason == Reason.DEGRADED
    assert "connection refused" in plan.condition.message


@pytest.mark.parametrize("is_online", [True, False])
def test_the_tally_says_whether_the_cloud_answers_and_not_the_connection_of_its_node(is_online: bool) -> None:
    edge, cloud = node("edge0", worker(Role.EDGE)), node("cloud0", worker(Role.CLOUD), is_online=is_online)
    tallied = replace(SERVICE, reported={"breaker": "closed", "uploadNumber": 7})
    in_vain = replace(SERVICE, reported={"breaker": "half-open", "lastError": "no route to host"})
    answered, alone = (planned(edge, cloud, service, edge_order=edge_order()) for service in (tallied, in_vain))
    assert answered.condition.reason == (Reason.SERVING if is_online else Reason.NODE_OFFLINE)
    assert (alone.condition.type, alone.condition.reason) == (ConditionType.RUNNING, Reason.DEGRADED)
    assert "no route to host" in alone.condition.message
    assert ("cloud0" in alone.condition.message) is not is_online


def test_of_an_edge_node_that_is_silent_nobody_says_that_its_worker_goes_on() -> None:
    silent = node("edge0", worker(Role.EDGE), is_online=False)
    plan = planned(silent, node("cloud0", worker(Role.CLOUD)), edge_order=edge_order())
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.PENDING, Reason.NODE_OFFLINE)
    assert "not known" in plan.condition.message
    assert plan.active == 1
    assert {role for role, _ in plan.orders} == {Role.CLOUD, Role.EDGE}, "it is told when it is back"


def test_a_cloud_worker_that_starts_anew_is_not_said_to_be_missed_before_it_is() -> None:
    starts = node("cloud0", worker(Role.CLOUD, WorkerState.STARTING))
    plan = planned(node("edge0", worker(Role.EDGE)), starts, edge_order=edge_order())
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.RUNNING, Reason.CLOUD_STARTING)


def test_a_failed_cloud_worker_fails_the_service_with_its_exit_code_and_last_lines() -> None:
    dead = worker(Role.CLOUD, WorkerState.FAILED, exit_code=3, log=("loading", "no such file"))
    plan = planned(node("edge0"), node("cloud0", dead))
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.FAILED, Reason.WORKER_FAILED)
    for word in ("big", "exit code 3", "no such file"):
        assert word in plan.condition.message
    assert (plan.active, plan.failed) == (0, 1)


def test_a_failed_cloud_worker_only_degrades_what_the_edge_serves() -> None:
    dead = worker(Role.CLOUD, WorkerState.FAILED, exit_code=-9)
    plan = planned(node("edge0", worker(Role.EDGE)), node("cloud0", dead), edge_order=edge_order())
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.RUNNING, Reason.DEGRADED)
    assert (plan.active, plan.failed) == (1, 1)


def test_an_edge_worker_that_ended_and_is_not_started_again_fails_it() -> None:
    dead = worker(Role.EDGE, WorkerState.FAILED, exit_code=-9)
    plan = planned(node("edge0", dead), node("cloud0", worker(Role.CLOUD)))
    assert plan.condition.reason == Reason.WORKER_FAILED
    assert (plan.active, plan.failed) == (1, 1)


@pytest.mark.parametrize("role", Role)
def test_a_worker_that_cannot_be_changed_is_told_with_what_runs_and_what_is_wanted(role: Role) -> None:
    runs = {"model": "tiny", "sha256": "a" * 64}
    stuck = worker(
        role,
        WorkerState.FAILED,
        reason="DiskFull",
        message="there is no space left on the disk.",
        former_generation=1,
        detail=runs,
    )
    other = worker(Role.CLOUD if role is Role.EDGE else Role.EDGE)
    edge, cloud = (stuck, other) if role is Role.EDGE else (other, stuck)
    plan = planned(node("edge0", edge), node("cloud0", cloud), edge_order=edge_order(generation=1))
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.PENDING, Reason.ROLLOUT_STALLED)
    model = "small" if role is Role.EDGE else "large"
    at_all_nodes = fleet_condition({"edge0": plan.condition}).message
    for message in (plan.condition.message.partition("\n")[0], at_all_nodes):
        assert f"cannot change to generation 2, version 1 of {model!r} (sha256 000" in message
        assert "goes on with generation 1, version 1 of 'tiny' (sha256 aaaaaaaaaaaa…): there is no space" in message
    chinese = unescape(filters(CHINESE)["written"](plan.condition.message))
    assert f"第 2 代（{model!r} 的第 1 版" in chinese and "第 1 代（" in chinese and "generation" not in chinese
    assert (plan.active, plan.failed) == (2, 0)


@pytest.mark.parametrize("role", Role)
def test_a_version_that_a_node_cannot_fetch_degrades_the_service_and_the_old_one_is_named(role: Role) -> None:
    runs = {"model": "small@3", "sha256": "a" * 64}
    behind = worker(role, WorkerState.FAILED, reason="FileMissing", message="404", former_generation=2, detail=runs)
    workers = {**{each: worker(each) for each in Role}, role: behind}
    edge_model = replace(SMALL, name="small@4", sha256="b" * 64)
    state = ObservedState(
        NOW, edge_model, edge_model, *(node(f"{each}0", workers[each]) for each in Role), edge_order=edge_order()
    )
    plan = plan_service(SERVICE, state)
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.RUNNING, Reason.DEGRADED)
    first, _, rest = plan.condition.message.partition("\n")
    assert "cannot change to version 4 of 'small' (sha256 bbbbbbbbbbbb…), " in first
    assert "and goes on with version 3 of 'small' (sha256 aaaaaaaaaaaa…): 404" in first, "a fleet shows the first line"
    assert rest == "The change is tried again and again."
    assert (plan.active, plan.failed) == (2, 0)
    chinese = filters(CHINESE)["written"](plan.condition.message)
    at_all_nodes = fleet_condition({"edge0": plan.condition}).message
    assert "version 4 of 'small'" in at_all_nodes and "version 3 of 'small'" in at_all_nodes
    assert "第 4 版" in chinese and "第 3 版" in chinese and "<span" not in chinese.replace(">404<", "")


def test_a_worker_that_goes_on_with_its_former_order_is_shown_as_running_with_the_cause() -> None:
    behind = worker(Role.EDGE, WorkerState.FAILED, reason="FileMissing", message="404", former_generation=2)
    dead = worker(Role.EDGE, WorkerState.FAILED, reason="FileMissing", message="404")
    for report, state in ((behind, WorkerState.RUNNING), (dead, WorkerState.FAILED)):
        edge = node("edge0", report)
        on_page = worker_of(SERVICE, Role.EDGE, edge, is_online=True).report
        in_api = worker_view(SERVICE, Role.EDGE, edge, {}, NOW).report
        for shown in (on_page, in_api, *edge.workers_at(NOW)):
            assert shown is not None
            assert (shown.state, shown.reason, shown.message) == (state, "FileMissing", "404")


NO_SIGNAL = {"stream": {"reason": "SourceUnavailable", "message": "cam cannot be opened: refused."}}
YARD_LOST = {
    "stream": {"reason": "SourceUnavailable", "message": "yard: cam cannot be opened: refused.", "is_partial": True}
}
NOT_BROADCAST = {"broadcasts": [{"source": "door", "is_sending": False, "problem": "refused"}]}
FULL = "its disk is full"


def stalled(role: Role, former_generation: int = 1, **detail: Any) -> WorkerReport:
    fields = {"reason": "FileMissing", "message": "404", "former_generation": former_generation, "detail": detail}
    return worker(role, WorkerState.FAILED, **fields)


def full_node(name: str, *workers: WorkerReport, **problems: str) -> Node:
    return replace(node(name), report=NodeReport(workers=workers, report_problem=FULL, **problems))


@pytest.mark.parametrize("former_generation", [1, 2])
def test_a_worker_that_cannot_be_changed_hides_no_other_problem(former_generation: int) -> None:
    cloud = node("cloud0", worker(Role.CLOUD))
    edge = full_node("edge0", stalled(Role.EDGE, former_generation, **YARD_LOST, **NOT_BROADCAST))
    condition = planned(edge, cloud, edge_order=edge_order(), withdrawn=frozenset({Role.CLOUD})).condition
    is_behind = former_generation == 2
    assert (condition.type, condition.reason) == (
        (ConditionType.RUNNING, Reason.DEGRADED) if is_behind else (ConditionType.PENDING, Reason.ROLLOUT_STALLED)
    )
    texts = [
        "yard: cam cannot be opened",
        "cannot store what its workers report: its disk is full",
        "'door' is not broadcast",
    ]
    texts.insert(3 if is_behind else 0, "cannot change to")
    places = [condition.message.find(text) for text in [*texts, "The model 'large' of the cloud worker is no longer"]]
    assert -1 not in places and places == sorted(places), "the gravest first"
    assert list(condition.problems) == ["source", "reports", "broadcast", "model"]
    assert ("cannot change" in condition.problems["model"]) is is_behind and "no longer" in condition.problems["model"]
    chinese = filters(CHINESE)["written"](condition.message)
    assert not re.findall("<span[^>]*>(?!404|yard: )", chinese)


def test_a_camera_without_signal_is_graver_than_a_change_that_is_not_carried_out() -> None:
    blind, cloud = node("edge0", stalled(Role.EDGE, **NO_SIGNAL)), node("cloud0", stalled(Role.CLOUD))
    plan = planned(blind, cloud)
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.FAILED, Reason.SOURCE_UNAVAILABLE)
    assert plan.condition.message.startswith("cam cannot be opened: refused.")
    for role in Role:
        assert f"The {role} worker" in plan.condition.message
    assert (plan.active, plan.failed) == (1, 1)


def test_a_big_model_that_does_not_answer_is_told_beside_a_change_that_is_not_carried_out() -> None:
    service = replace(SERVICE, reported={"breaker": "open", "lastError": "no route to host"})
    condition = planned(node("edge0", stalled(Role.EDGE)), node("cloud0", worker(Role.CLOUD)), service).condition
    assert condition.reason == Reason.ROLLOUT_STALLED and list(condition.problems) == ["cloud"]
    assert "no route to host" in condition.message
    away = planned(node("edge0", stalled(Role.EDGE)), node("cloud0", worker(Role.CLOUD), is_online=False)).condition
    assert away.reason == Reason.ROLLOUT_STALLED and "The node 'cloud0' of the big model" in away.message


def test_of_a_node_that_is_silent_no_stall_is_told() -> None:
    away = node("edge0", stalled(Role.EDGE, **NO_SIGNAL), is_online=False)
    condition = planned(away, node("cloud0", worker(Role.CLOUD))).condition
    assert (condition.type, condition.reason) == (ConditionType.PENDING, Reason.NODE_OFFLINE)
    assert "404" not in condition.message and "cam" not in condition.message


@pytest.mark.parametrize("generation", [1, 2])
def test_an_order_that_a_node_cannot_store_hides_nothing_of_the_worker_that_goes_on(generation: int) -> None:
    going_on = worker(Role.EDGE, generation=1, detail=YARD_LOST)
    edge, cloud = full_node("edge0", going_on, order_problem=FULL), node("cloud0", worker(Role.CLOUD))
    plan = planned(edge, cloud, edge_order=edge_order(generation))
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.PENDING, Reason.ROLLOUT_STALLED)
    assert plan.condition.message.startswith("The node 'edge0' cannot store what the edge worker 'little' is to run")
    is_told = generation == 2
    assert list(plan.condition.problems) == (["source", "reports"] if is_told else []), "it waits for its own order"
    assert plan.active == (2 if is_told else 1)


def test_the_workers_that_do_not_serve_are_all_told_the_gravest_first() -> None:
    dead, away = worker(Role.EDGE, WorkerState.FAILED, exit_code=3), node("cloud0", is_online=False)
    condition = planned(node("edge0", dead), away).condition
    assert (condition.type, condition.reason) == (ConditionType.FAILED, Reason.WORKER_FAILED)
    assert [line.split(" on ")[0].split(" is ")[0] for line in condition.message.splitlines()] == [
        "The edge worker 'little'",
        "The node 'cloud0' of the cloud worker",
    ]


def test_a_version_that_cannot_be_fetched_hides_no_worker_that_does_not_run() -> None:
    behind = worker(Role.CLOUD, WorkerState.FAILED, reason="FileMissing", former_generation=2)
    dead = worker(Role.EDGE, WorkerState.FAILED, exit_code=3)
    plan = planned(node("edge0", dead), node("cloud0", behind), edge_order=edge_order())
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.FAILED, Reason.WORKER_FAILED)


@pytest.mark.parametrize("role", list(Role))
def test_an_order_that_a_node_cannot_store_is_told_with_the_cause(role: Role) -> None:
    nodes = {Role.EDGE: node("edge0", worker(Role.EDGE, generation=1)), Role.CLOUD: node("cloud0", worker(Role.CLOUD))}
    nodes[role] = replace(
        nodes[role],
        report=NodeReport(workers=(worker(role, generation=1),), order_problem="its disk is full"),
    )
    condition = planned(nodes[Role.EDGE], nodes[Role.CLOUD]).condition
    assert (condition.type, condition.reason) == (ConditionType.PENDING, Reason.ROLLOUT_STALLED)
    assert f"The node {nodes[role].name!r} cannot store" in condition.message
    assert "its disk is full" in condition.message
    chinese = filters(CHINESE)["written"](condition.message)
    assert "其磁碟已滿" in chinese and "cannot store" not in chinese


def test_a_node_that_cannot_store_what_its_worker_reports_is_told_while_the_worker_goes_on() -> None:
    edge = node("edge0", worker(Role.EDGE))
    full = replace(edge, report=replace(edge.report, report_problem="its disk is full"))
    plan = planned(full, node("cloud0", worker(Role.CLOUD)))
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.RUNNING, Reason.DEGRADED)
    assert "The node 'edge0' cannot store what its workers report: its disk is full." in plan.condition.message
    assert (plan.active, plan.failed) == (2, 0)
    chinese = filters(CHINESE)["written"](plan.condition.message)
    assert "其磁碟已滿" in chinese and "記憶體" in chinese and "cannot" not in chinese


def test_a_node_whose_reports_the_web_server_does_not_take_is_told() -> None:
    edge = node("edge0", worker(Role.EDGE))
    waiting = replace(edge, report=replace(edge.report, delivery_problem="The disk of the object store is full"))
    condition = planned(waiting, node("cloud0", worker(Role.CLOUD))).condition
    assert (condition.type, condition.reason) == (ConditionType.RUNNING, Reason.DEGRADED)
    assert "does not take what the node 'edge0' reports: The disk of the object store is full." in condition.message
    assert "磁碟" in filters(CHINESE)["written"](condition.message)


def test_a_source_that_is_not_broadcast_degrades_a_service_that_serves() -> None:
    states = [{"source": "door", "is_sending": False, "problem": "refused"}, {"source": "yard", "is_sending": True}]
    starting = [{"source": "door", "is_sending": False, "problem": ""}]
    cloud = node("cloud0", worker(Role.CLOUD))
    plan = planned(node("edge0", worker(Role.EDGE, detail={"broadcasts": states})), cloud)
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.RUNNING, Reason.DEGRADED)
    assert plan.condition.message == "The source 'door' is not broadcast: refused."
    chinese = filters(CHINESE)["written"](plan.condition.message)
    assert "沒有轉播" in chinese and "broadcast" not in chinese
    plan = planned(node("edge0", worker(Role.EDGE, detail={"broadcasts": starting})), cloud)
    assert plan.condition.reason == Reason.SERVING


def test_a_worker_that_ends_again_and_again_has_failed_also_while_it_is_tried() -> None:
    dead = worker(Role.EDGE, WorkerState.FAILED, exit_code=3, pid=77)
    plan = planned(node("edge0", dead), node("cloud0", worker(Role.CLOUD)))
    assert plan.condition.reason == Reason.WORKER_FAILED


@pytest.mark.parametrize("reason", [Reason.SOURCE_UNAVAILABLE, Reason.DECODER_MISSING])
def test_a_source_that_gives_nothing_fails_it_and_its_worker_counts_as_failed(reason: Reason) -> None:
    blind = worker(Role.EDGE, detail={"stream": {"reason": reason.value, "message": "cam cannot be opened: refused."}})
    plan = planned(node("edge0", blind), node("cloud0", worker(Role.CLOUD)))
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.FAILED, reason)
    assert "cam cannot be opened: refused." in plan.condition.message
    assert (plan.active, plan.failed) == (1, 1)
    assert {role for role, _ in plan.orders} == {Role.CLOUD, Role.EDGE}, "it is tried again"


def test_one_of_several_sources_that_gives_nothing_degrades_it_and_its_worker_counts_as_active() -> None:
    stream = {"reason": "SourceUnavailable", "message": "yard: cam cannot be opened.", "is_partial": True}
    plan = planned(node("edge0", worker(Role.EDGE, detail={"stream": stream})), node("cloud0", worker(Role.CLOUD)))
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.RUNNING, Reason.DEGRADED)
    assert plan.condition.message == (
        "yard: cam cannot be opened.\nIt is tried again every few seconds. The other sources go on."
    )
    assert (plan.active, plan.failed) == (2, 0)
    assert "The other sources go on" not in filters(CHINESE)["written"](plan.condition.message)


def test_a_source_that_has_ended_is_told_while_the_worker_answers() -> None:
    ended = worker(Role.EDGE, detail={"stream": {"reason": "SourceEnded", "message": "clip.mp4 is at its end."}})
    plan = planned(node("edge0", ended), node("cloud0", worker(Role.CLOUD)))
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.RUNNING, Reason.SOURCE_ENDED)
    assert (plan.active, plan.failed) == (2, 0)


@pytest.mark.parametrize("stream", [{}, None, "gone", 7, {"reason": "Serving"}, {"reason": ["SourceEnded"]}])
def test_what_a_worker_says_of_its_stream_may_be_anything(stream: Any) -> None:
    edge = worker(Role.EDGE, detail={"stream": stream})
    plan = planned(node("edge0", edge), node("cloud0", worker(Role.CLOUD)))
    assert plan.condition.reason == Reason.SERVING


def test_a_worker_between_two_lives_is_pending() -> None:
    plan = planned(node("edge0", worker(Role.EDGE, WorkerState.BACKOFF)), node("cloud0", worker(Role.CLOUD)))
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.PENDING, Reason.RESTARTING)


def test_a_node_that_is_not_connected_is_waited_for() -> None:
    plan = planned(node("edge0", is_online=False), node("cloud0", worker(Role.CLOUD)))
    assert plan.condition.reason == Reason.NODE_OFFLINE
    assert "edge0" in plan.condition.message


def test_a_missing_model_or_node_is_named_and_nothing_is_ordered() -> None:
    no_model = plan_service(SERVICE, ObservedState(NOW, None, LARGE, node("edge0"), node("cloud0")))
    assert (no_model.condition.type, no_model.condition.reason) == (ConditionType.FAILED, Reason.MODEL_NOT_FOUND)
    assert "'small'" in no_model.condition.message
    no_node = planned(None, node("cloud0"))
    assert no_node.condition.reason == Reason.NODE_NOT_FOUND
    assert "'edge0'" in no_node.condition.message
    assert not no_model.orders
    assert not no_node.orders


def test_a_model_that_is_no_longer_there_is_kept_and_the_service_says_so() -> None:
    edge, cloud = node("edge0", worker(Role.EDGE)), node("cloud0", worker(Role.CLOUD))
    content = planned(edge, cloud).orders[Role.EDGE, "edge0"].to_json()
    order = Order(1, "edge0", key_of(SERVICE, Role.EDGE), "default", "gate", Operation.UPDATE, 2, content)
    assert find_kept_model(SERVICE, order) == SMALL
    assert find_kept_model(SERVICE, None) is None
    assert find_kept_model(SERVICE, replace(order, generation=1)) is None, "it is of the service as it was"
    assert find_kept_model(SERVICE, replace(order, operation=Operation.DELETE)) is None
    plan = planned(edge, cloud, withdrawn=frozenset({Role.EDGE}))
    assert (plan.condition.type, plan.condition.reason) == (ConditionType.RUNNING, Reason.DEGRADED)
    assert plan.condition.message.startswith("The model 'small' of the edge worker is no longer there for you")
    assert plan.orders == planned(edge, cloud).orders
    chinese = filters(CHINESE)["written"](plan.condition.message)
    assert chinese.startswith("邊緣工作程序的模型 &#39;small&#39; 您已無法使用")
    assert chinese.endswith("工作程序繼續執行目前的版本。")
    crashed = node("edge0", worker(Role.EDGE, WorkerState.BACKOFF))
    assert planned(crashed, cloud, withdrawn=frozenset({Role.EDGE})).condition.reason == Reason.RESTARTING


def test_all_that_is_missing_is_named_at_once() -> None:
    condition = plan_service(SERVICE, ObservedState(NOW, None, None, None, None)).condition
    assert condition.reason == Reason.MODEL_NOT_FOUND
    assert [line.split(".")[0] for line in condition.message.split("\n")] == [
        "There is no model 'large' for the cloud worker",
        "There is no model 'small' for the edge worker",
        "There is no node 'cloud0' for the cloud worker",
        "There is no node 'edge0' for the edge worker",
    ]


# --- conditions ---------------------------------------------------------------------------------------
def test_the_current_condition_is_the_last_and_each_type_stands_once() -> None:
    def after(before: list[dict[str, Any]], kind: ConditionType, at: str) -> list[dict[str, Any]]:
        return conditions_after(before, Condition(kind, "R"), None, at)

    conditions = after([], ConditionType.PENDING, "1")
    for number, kind in enumerate([ConditionType.RUNNING, ConditionType.FAILED, ConditionType.RUNNING] * 3):
        conditions = after(conditions, kind, str(number + 2))
    assert [entry["type"] for entry in conditions] == ["Pending", "Failed", "Running"]
    assert [entry["status"] for entry in conditions] == ["False", "False", "True"]


def test_a_transition_has_its_own_time_and_a_heartbeat_another() -> None:
    first = conditions_after([], Condition(ConditionType.RUNNING, "R", "m"), None, "1")
    second = conditions_after(first, Condition(ConditionType.RUNNING, "R", "m"), None, "2")
    assert (second[-1]["lastTransitionTime"], second[-1]["lastHeartbeatTime"]) == ("1", "2")
    third = conditions_after(second, Condition(ConditionType.RUNNING, "R", "said otherwise"), None, "3")
    assert (third[-1]["lastTransitionTime"], third[-1]["message"]) == ("1", "said otherwise")
    fourth = conditions_after(third, Condition(ConditionType.RUNNING, "S"), None, "4")
    assert fourth[-1]["lastTransitionTime"] == "4"


def test_a_warning_stands_before_the_state_and_goes_with_its_cause() -> None:
    warning = Condition(ConditionType.WARNING, Reason.NEVER_HARD, "never")
    conditions = conditions_after([], Condition(ConditionType.RUNNING, "R"), warning, "1")
    assert [entry["type"] for entry in conditions] == ["Warning", "Running"]
    assert [e["type"] for e in conditions_after(conditions, Condition(ConditionType.RUNNING, "R"), None, "2")] == [
        "Running"
    ]


def test_what_became_of_a_service_is_told_in_the_language_of_its_reader() -> None:
    edge, cloud = node("edge0", worker(Role.EDGE)), node("cloud0", worker(Role.CLOUD))
    crashed = worker(Role.CLOUD, WorkerState.FAILED, exit_code=3, message="exited")
    stalled = worker(Role.EDGE, WorkerState.FAILED, former_generation=1, reason="ModelNotFound")
    behind = worker(Role.EDGE, WorkerState.FAILED, former_generation=2, reason="FileMissing")
    broken = replace(SERVICE, reported={"breaker": "open", "lastError": "refused"})
    away = node("cloud0", worker(Role.CLOUD), is_online=False)
    silent = node("edge0", worker(Role.EDGE), is_online=False)
    plans = [
        *(
            planned(*nodes)
            for nodes in ((edge, cloud), (None, None), (edge, away), (silent, cloud), (node("edge0"), away))
        ),
        planned(node("edge0"), node("cloud0")),
        planned(node("edge0", stalled), cloud),
        planned(node("edge0", behind), cloud),
        planned(edge, node("cloud0", crashed)),
        planned(edge, cloud, broken),
        planned(edge, away, broken),
    ]
    written = filters(CHINESE)["written"]
    told = {plan.condition.message: written(plan.condition.message) for plan in plans}
    assert len(told) == len(plans)
    as_written = re.compile('<span lang="en">(.*?)</span>')
    assert {text for each in told.values() for text in as_written.findall(each)} <= {"exited", "ModelNotFound"}
