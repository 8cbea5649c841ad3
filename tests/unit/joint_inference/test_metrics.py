"""What joint inference tells Prometheus."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry

from app.accounts.credentials import SecretHasher
from app.joint_inference import store
from app.joint_inference.metrics import JointCollector
from app.joint_inference.model.resource import PLURAL
from app.joint_inference.service.services import Services
from app.kit.clock import now
from app.kit.sql import Database
from app.nodes.model import NodeReport, Side, WorkerReport, WorkerState, WorkKey
from app.nodes.service import Nodes
from tests.harness.joint.deployment import resource


@pytest.fixture
def nodes(database: Database) -> Nodes:
    return Nodes(database, SecretHasher("a key"), lambda _: None)


def value(database: Database, nodes: Nodes, name: str, at: datetime | None = None, **labels: str) -> float | None:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(JointCollector(database, nodes, now=lambda: at or now()))
    return registry.get_sample_value(f"modelmill_{name}", labels)


def test_nodes_are_online_until_they_are_silent(database: Database, nodes: Nodes) -> None:
    for name, side in (("edge0", Side.EDGE), ("edge1", Side.EDGE), ("cloud0", Side.CLOUD)):
        nodes.register(name, side, now=now())
    nodes.report("edge0", NodeReport(), address="", version="", now=now())
    assert value(database, nodes, "nodes", side="edge", state="online") == 1
    assert value(database, nodes, "nodes", side="edge", state="offline") == 1
    assert value(database, nodes, "nodes", side="host", state="offline") == 0
    later = now() + timedelta(minutes=1)
    assert value(database, nodes, "nodes", later, side="edge", state="offline") == 2


def test_lost_and_refused_reports_are_counted_for_each_node(database: Database, nodes: Nodes) -> None:
    for name, lost, refused in (("edge0", 0, 3), ("edge1", 7, 0)):
        nodes.register(name, Side.EDGE, now=now())
        report = NodeReport(lost_reports=lost, refused_reports=refused)
        nodes.report(name, report, address="", version="", now=now())
        assert value(database, nodes, "node_reports_lost_total", node=name) == lost
        assert value(database, nodes, "node_reports_refused_total", node=name) == refused


def test_services_are_counted_by_state_and_orders_until_they_are_stored(database: Database, nodes: Nodes) -> None:
    services = Services(database, nodes, lambda _: None, lambda: None)
    service = services.create("alice", resource("a", edge="edge0", cloud="c", small="s", big="b"), now=now())
    assert value(database, nodes, "joint_services", state="Pending") == 1
    assert value(database, nodes, "joint_services", state="Failed") == 0
    nodes.register("edge0", Side.EDGE, now=now())
    key = WorkKey("jointinferenceservices", service.uid, "edge")
    with database.write() as conn:
        nodes.order(conn, "edge0", key, namespace="default", name="a", generation=1, content={})
    assert value(database, nodes, "node_orders_pending") == 1
    nodes.acknowledge("edge0", [order.seq for order in nodes.pending("edge0")])
    assert value(database, nodes, "node_orders_pending") == 0


def test_what_a_service_has_counted_is_told_by_its_name(database: Database, nodes: Nodes) -> None:
    services = Services(database, nodes, lambda _: None, lambda: None)
    named = {"owner": "alice", "namespace": "default", "service": "a"}
    made = services.create("alice", resource("a", edge="edge0", cloud="c", small="s", big="b"), now=now())
    assert value(database, nodes, "joint_pictures_total", **named) is None, "it has reported nothing"
    reported = {"inferenceNumber": 90, "hardExampleNumber": 9, "fps": 4.5, "edgeMsP95": 12.0, "lastError": "x"}
    with database.write() as conn:
        store.change_service(conn, made, reported=reported)
    assert value(database, nodes, "joint_pictures_total", **named) == 90
    assert value(database, nodes, "joint_hard_total", **named) == 9
    assert value(database, nodes, "joint_cloud_answers_total", **named) is None
    assert value(database, nodes, "joint_pictures_per_second", **named) == 4.5
    assert value(database, nodes, "joint_answer_seconds", **named, side="edge", quantile="0.95") == 0.012


def test_each_source_of_a_service_is_told_with_its_node(database: Database, nodes: Nodes) -> None:
    services = Services(database, nodes, lambda _: None, lambda: None)
    made = services.create("alice", resource("a", edge="edge0", cloud="c", small="s", big="b"), now=now())
    nodes.register("edge0", Side.EDGE, now=now())
    states = [
        {"name": "door", "status": "running", "frames": 90, "hard": 9, "still": 3, "damaged": 1},
        {"name": "gate", "status": "no_signal", "frames": 7},
    ]
    worker = WorkerReport(
        WorkKey(PLURAL, made.uid, "edge"), "default", "a", "a-edge", 1, WorkerState.RUNNING, detail={"sources": states}
    )
    gone = replace(worker, key=WorkKey(PLURAL, "gone", "edge"))
    nodes.report("edge0", NodeReport(workers=(worker, gone)), address="", version="", now=now())
    named = {"owner": "alice", "namespace": "default", "service": "a", "node": "edge0"}
    told = {
        (name, source): value(database, nodes, f"joint_source_{name}", **named, source=source)
        for name in ("pictures_total", "hard_total", "still_total", "damaged_total", "signal")
        for source in ("door", "gate")
    }
    assert told == {
        ("pictures_total", "door"): 90,
        ("pictures_total", "gate"): 7,
        ("hard_total", "door"): 9,
        ("hard_total", "gate"): 0,
        ("still_total", "door"): 3,
        ("still_total", "gate"): 0,
        ("damaged_total", "door"): 1,
        ("damaged_total", "gate"): 0,
        ("signal", "door"): 1,
        ("signal", "gate"): 0,
    }
