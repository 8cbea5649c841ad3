"""One suite over both databases: what controllers, nodes and users do to a service at the same moment."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from app.accounts.credentials import SecretHasher
from app.inference.model_card import Format, ModelCard
from app.inference.prediction import Prediction
from app.joint_inference import store
from app.joint_inference.errors import ServiceNotFound
from app.joint_inference.model.reconciliation import key_of
from app.joint_inference.model.resource import PLURAL, Role, Service
from app.joint_inference.model.tally import Sample, Source
from app.joint_inference.responses import summary
from app.joint_inference.service import Controller, HardSamples, Reports, ServicePlanner, Services
from app.joint_inference.service.task_info import UpstreamStatus
from app.joint_inference.validation import validate_status
from app.kit.clock import to_text
from app.kit.objects import ObjectMissing
from app.kit.objects.filesystem import FilesystemStore
from app.kit.queue.broker import connect_to_look
from app.kit.sql import Database
from app.kit.web.languages import CHINESE
from app.kit.web.written_texts import filters
from app.model_registry.model import Model, ModelUse, Usage
from app.model_registry.service import Models
from app.nodes.model import Node, NodeReport, Operation, Side, WorkerReport, WorkerState
from app.nodes.service import NodeAccess, Nodes
from app.results.service.event_media import EventMedia
from app.results.service.rules import Rules
from tests.harness.databases import database, empty, url
from tests.harness.joint.deployment import resource

__all__ = ["database", "empty", "url"]
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)
NOWHERE = connect_to_look("redis://127.0.0.1:1")
"""Plots may have holes."""


class Registry:
    """It has every model. newest: the version that each name means."""

    newest = 1

    def find(self, user: str, name: str, *, now: datetime) -> Model:
        card = ModelCard(name, Format.ONNX, str(self.newest - 1) * 64, 1)
        return Model(user, card, to_text(now)).as_version(self.newest)


class SlowAccess(NodeAccess):
    """meanwhile: what happens once, after whoever looked has seen the cloud's node."""

    meanwhile: Callable[[], None] | None = None

    def find_for(self, user: str, name: str) -> Node | None:
        service = super().find_for(user, name)
        if name == "cloud0" and self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return service


class Env:
    def __init__(self, database: Database, folder: Path) -> None:
        self.database = database
        self.woken: list[str] = []
        self.objects = FilesystemStore(folder)
        self.nodes = Nodes(database, SecretHasher("a key"), lambda _: None)
        self.nodes.access = self.access = SlowAccess(database)
        self.services = Services(database, self.nodes, self.woken.append, lambda: None)
        rules = Rules(database, {}, EventMedia(self.objects), announce={}, keep_days=1, most_per_producer=10)
        self.reports = Reports(self.services, self.nodes, NOWHERE, rules, lambda _, __: None)
        self.samples = HardSamples(self.services, self.nodes, self.objects, rules)
        self.registry = Registry()
        models = cast(Models, self.registry)
        planner = ServicePlanner(self.services, self.nodes, models, lambda _, __: True)
        self.controller = Controller(self.services, self.reports, self.samples, self.nodes, planner)
        for name, side in (("edge0", Side.EDGE), ("edge1", Side.EDGE), ("cloud0", Side.CLOUD)):
            self.nodes.register(name, side, now=NOW)
            self.nodes.report(name, NodeReport(), address="10.0.0.9", version="1", now=NOW)

    def make(self) -> Service:
        return self.services.create("alice", self.gate("edge0"), now=NOW)

    @staticmethod
    def gate(edge: str) -> Any:
        return resource("gate", edge=edge, cloud="cloud0", small="s", big="b")

    def serve(self, service: Service, port: int) -> None:
        """The cloud's node says where the big model is."""
        worker = WorkerReport(
            key_of(service, Role.CLOUD),
            "default",
            "gate",
            "gate-cloud",
            service.generation,
            WorkerState.RUNNING,
            address=f"10.0.0.9:{port}",
        )
        self.nodes.report("cloud0", NodeReport(workers=(worker,)), address="10.0.0.9", version="1", now=NOW)

    def reconcile(self, uid: str, after_s: int = 1) -> None:
        self.controller.reconcile(uid, now=NOW + timedelta(seconds=after_s))

    def run(self) -> Service:
        """Both workers are ordered."""
        service = self.make()
        self.serve(service, 5000)
        self.reconcile(service.uid)
        return self.known(service.uid)

    def known(self, uid: str) -> Service:
        with self.database.read() as conn:
            service = store.by_uid(conn, uid)
        assert service is not None
        return service

    def orders(self, uid: str) -> dict[tuple[str, str], Operation]:
        with self.database.read() as conn:
            return {(order.node, order.key.part): order.operation for order in self.nodes.orders_of(conn, PLURAL, uid)}

    def url(self, uid: str) -> str:
        """Of the big model, as the edge worker is told it."""
        with self.database.read() as conn:
            edge = next(order for order in self.nodes.orders_of(conn, PLURAL, uid) if order.key.part == Role.EDGE)
        return str(edge.content["bigModel"]["url"])

    def keys(self) -> list[str]:
        return [info.key for info in self.objects.list("joint/")]


@pytest.fixture
def env(database: Database, tmp_path: Path) -> Env:
    return Env(database, tmp_path / "objects")


def status(count: int, at: str, state: str = "running", **more: Any) -> UpstreamStatus:
    times = {"startTime": "2026-11-22T10:00:00.000Z", "currentTime": at, "updateTime": at}
    info = {"inferenceNumber": count, "hardExampleNumber": 0, "uploadCloudRatio": 0.0, **times, **more}
    return UpstreamStatus(status=state, uid="", task_info=info)


def sample(name: str = "s1") -> Sample:
    return Sample(name, to_text(NOW), 8, 8, "why", 0.5, Source.CLOUD, Prediction())


def in_a_thread_while_held(env: Env, uid: str, work: Callable[[], None], **change: Any) -> None:
    """Another has changed the service and not yet committed when this begins."""
    thread = threading.Thread(target=work)
    with env.database.write() as conn:
        held = store.by_uid(conn, uid)
        assert held is not None
        assert store.change_service(conn, held, **change) is not None
        thread.start()
        thread.join(1.0)
    thread.join()


def test_a_report_that_comes_while_a_controller_writes_is_not_lost(env: Env) -> None:
    uid = env.run().uid
    note = status(7, "2026-11-22T12:00:00.000Z")
    in_a_thread_while_held(env, uid, lambda: env.reports.note(uid, note, now=NOW), labels={"site": "north"})
    assert env.known(uid).reported["inferenceNumber"] == 7
    assert env.known(uid).labels == {"site": "north"}


def test_a_user_who_names_no_version_is_not_refused_for_what_a_controller_writes(env: Env) -> None:
    uid, refused = env.run().uid, list[Exception]()

    def move() -> None:
        try:
            env.services.replace("alice", "default", "gate", env.gate("edge1"), now=NOW)
        except Exception as error:  # noqa: BLE001
            refused.append(error)

    in_a_thread_while_held(env, uid, move, reported={"inferenceNumber": 3})
    assert refused == []
    assert env.known(uid).generation == 2


def test_a_service_that_is_deleted_while_it_is_looked_at_leaves_no_worker_behind(env: Env) -> None:
    uid = env.make().uid
    in_a_thread_while_held(env, uid, lambda: env.reconcile(uid), deleted_at=to_text(NOW))
    env.reconcile(uid)
    assert env.orders(uid) == {}
    assert env.known(uid).gone_at


def test_who_looked_before_another_does_not_overwrite_what_that_one_found(env: Env) -> None:
    service = env.run()

    def restarted() -> None:
        env.serve(service, 5001)
        env.reconcile(service.uid, 3)

    env.access.meanwhile = restarted
    env.woken.clear()
    env.reconcile(service.uid, 2)
    assert env.url(service.uid) == "http://10.0.0.9:5001"
    assert env.woken == [service.uid]


def test_an_edge_worker_that_moves_ends_where_it_was_once_the_new_one_may_start(env: Env) -> None:
    service = env.run()
    moved = env.services.replace("alice", "default", "gate", env.gate("edge1"), now=NOW)
    env.reconcile(service.uid, 2)
    assert env.orders(service.uid)["edge0", "edge"] is Operation.INSERT  # it goes on until then
    env.serve(moved, 5000)
    env.reconcile(service.uid, 3)
    orders = env.orders(service.uid)
    assert (orders["edge0", "edge"], orders["edge1", "edge"]) == (Operation.DELETE, Operation.INSERT)


def test_a_worker_that_was_replaced_says_nothing_any_more(env: Env) -> None:
    service = env.run()
    with env.database.write() as conn:
        env.nodes.withdraw(conn, PLURAL, service.uid, "edge")
    with pytest.raises(ServiceNotFound):
        env.reports.take(
            "default",
            "gate",
            {
                "status": "running",
                "uid": service.uid,
                "output": {"taskInfo": {"inferenceNumber": 1, "hardExampleNumber": 0, "uploadCloudRatio": 0}},
            },
            node="edge0",
        )


@pytest.mark.parametrize(
    ("then", "is_taken"),
    [
        (status(9, "2026-11-22T11:59:59.000Z"), False),  # it was overtaken on its way
        (status(10, "2026-11-22T12:00:00.000Z", breaker="closed"), True),  # nothing was counted since
        (status(10, "2026-11-22T12:00:00.000Z", "completed", breaker="open"), True),
        (status(11, "2020-01-01T00:00:00.000Z"), True),  # the edge's clock was set back
        (status(1, "2026-11-22T11:00:00.000Z", startTime="2026-11-22T10:59:00.000Z"), True),  # another machine
    ],
)
def test_a_report_is_news_whatever_the_edges_clock_does(env: Env, then: UpstreamStatus, *, is_taken: bool) -> None:
    uid = env.run().uid
    env.reports.note(uid, status(10, "2026-11-22T12:00:00.000Z", breaker="open"), now=NOW)
    env.reports.note(uid, then, now=NOW)
    assert (env.known(uid).reported == {**then.task_info, "phase": then.status}) is is_taken


def test_the_same_report_twice_changes_nothing(env: Env) -> None:
    uid = env.run().uid
    env.reports.note(uid, status(10, "2026-11-22T12:00:00.000Z"), now=NOW)
    before = env.known(uid)
    env.reports.note(uid, status(10, "2026-11-22T12:00:00.000Z"), now=NOW)
    assert env.known(uid) == before


def test_a_node_cannot_replace_the_picture_of_a_service_that_it_does_not_run(env: Env) -> None:
    service = env.run()
    env.samples.add("edge0", service.uid, sample(), b"right", "image/png", now=NOW)
    with pytest.raises(ServiceNotFound):
        env.samples.add("edge1", service.uid, sample(), b"wrong", "image/png", now=NOW)
    assert env.samples.picture("alice", "default", "gate", "s1") == (b"right", "image/png")


def test_a_sample_of_a_service_that_goes_while_it_arrives_leaves_no_picture(env: Env) -> None:
    service = env.run()
    put = env.objects.put

    def put_late(*given: Any, **more: Any) -> Any:
        made = put(*given, **more)
        with env.database.write() as conn:
            env.nodes.withdraw(conn, PLURAL, service.uid)
        return made

    env.objects.put = put_late  # type: ignore[method-assign]
    with pytest.raises(ServiceNotFound):
        env.samples.add("edge0", service.uid, sample(), b"late", "image/png", now=NOW)
    assert env.keys() == []


def test_pictures_that_could_not_be_deleted_with_their_service_go_later(env: Env) -> None:
    service = env.make()
    env.objects.put(f"joint/{service.uid}/samples/s1", [b"left"], content_type="image/png")
    with env.database.write() as conn:
        store.change_service(conn, service, gone_at=to_text(NOW))
    env.controller.forget_gone(NOW + timedelta(minutes=59))
    assert len(env.keys()) == 1
    env.controller.forget_gone(NOW + timedelta(minutes=61))
    with pytest.raises(ObjectMissing):
        env.objects.info(f"joint/{service.uid}/samples/s1")


@pytest.mark.parametrize(
    "put",
    [
        {},
        {"conditions": []},
        {"conditions": [{}]},
        {"conditions": [{"type": "Running", "status": "True"}]},
        {"conditions": [{"type": "OfAnotherControllers", "status": "True"}]},
        {"metrics": [{}]},
    ],
)
def test_a_status_that_somebody_puts_is_put_right_at_the_next_look(env: Env, put: dict[str, Any]) -> None:
    service = env.run()
    env.services.put_status("alice", "default", "gate", validate_status(put), now=NOW)
    summary(env.known(service.uid))  # it can be listed meanwhile
    env.reconcile(service.uid, 2)
    assert env.known(service.uid).status["conditions"][-1]["reason"] == "EdgeWorkerStarting"


def test_services_that_name_a_model_are_looked_at_when_its_names_change_and_keep_what_they_name(
    env: Env,
) -> None:
    names = {"plain": "s", "pinned": "s@3", "tagged": "s@stable", "other": "t"}
    uids = {}
    for name, small in names.items():
        made = resource(name, edge="edge0", cloud="cloud0", small=small, big="b")
        uids[name] = env.services.create("alice", made, now=NOW).uid
    env.woken.clear()
    env.services.model_changed("bob", "s")
    assert env.woken == []
    env.services.model_changed("alice", "s")
    assert set(env.woken) == {uids[name] for name in ("plain", "pinned", "tagged")}
    used = {name: env.services.usages(ModelUse("alice", frozenset({name}))) for name in ("s@3", "s@stable", "s@4")}
    pinned, tagged = (Usage("service", f"default/{name}", "alice") for name in ("pinned", "tagged"))
    assert used == {"s@3": [pinned], "s@stable": [tagged], "s@4": []}
    assert env.services.usages(ModelUse("bob", frozenset({"s"}))) == []


def test_services_that_name_a_model_of_another_owner_follow_it_and_hold_it_with_access(env: Env) -> None:
    uids = {}
    for name, small in {"plain": "alice/s", "tagged": "alice/s@stable", "own": "s", "others": "alice_/s"}.items():
        made = resource(name, edge="edge0", cloud="cloud0", small=small, big="b")
        uids[name] = env.services.create("bob", made, now=NOW).uid
    env.woken.clear()
    env.services.model_changed("alice", "s")
    assert set(env.woken) == {uids["plain"], uids["tagged"]}
    names = frozenset({"s", "s@stable"})
    assert env.services.usages(ModelUse("alice", names)) == []
    using = env.services.usages(ModelUse("alice", names, admits=lambda user: user == "bob"))
    assert {usage.name for usage in using} == {"default/plain", "default/tagged"}
    assert {usage.owner for usage in using} == {"bob"}


def test_that_a_worker_is_told_to_run_another_version_is_an_event_and_the_same_one_is_none(env: Env) -> None:
    uid = env.run().uid
    env.reconcile(uid, 2)
    env.registry.newest = 2
    env.reconcile(uid, 3)
    env.reconcile(uid, 4)
    changes = [event.message for event in env.services.events("alice", "default", "gate") if event.type == "Changed"]
    names = {"edge": ("gate-edge", "edge0", "s"), "cloud": ("gate-cloud", "cloud0", "b")}
    assert sorted(changes) == sorted(
        f"The {role} worker {name!r} on {node!r} is told to change from version 1 of {model!r} (sha256 000000000000…) "
        f"to version 2 of {model!r} (sha256 111111111111…)."
        for role, (name, node, model) in names.items()
    )
    assert all("第 2 版" in filters(CHINESE)["written"](change) for change in changes)
