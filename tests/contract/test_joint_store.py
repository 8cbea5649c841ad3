"""One suite over both databases: services as their users make, change, watch and delete them."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection

from app.accounts.credentials import SecretHasher
from app.inference.prediction import Prediction
from app.joint_inference import store
from app.joint_inference.errors import InvalidResource, ServiceChanged, ServiceExists, ServiceNotFound
from app.joint_inference.model.resource import Service
from app.joint_inference.model.status import Condition, ConditionType, conditions_after
from app.joint_inference.model.tally import Sample, Source
from app.joint_inference.service.services import Services
from app.kit.errors import BadInput, Conflict
from app.kit.sql import Database
from app.nodes.service import Nodes
from tests.harness.databases import database, empty, together, url
from tests.harness.joint.deployment import resource

__all__ = ["database", "empty", "url"]
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


class Told:
    """Who was to be looked at, and how often somebody was told that something changed."""

    def __init__(self) -> None:
        self.woken: list[str] = []
        self.announced = 0

    def announce(self) -> None:
        self.announced += 1


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def services(database: Database, told: Told) -> Services:
    nodes = Nodes(database, SecretHasher("a key"), lambda _: None)
    return Services(database, nodes, told.woken.append, told.announce)


def gate(name: str = "gate", **changes: Any) -> dict[str, Any]:
    return resource(name, **{"edge": "edge0", "cloud": "cloud0", "small": "s", "big": "b", **changes})


def made(services: Services, name: str = "gate", user: str = "alice", **changes: Any) -> Service:
    return services.create(user, gate(name, **changes), now=NOW)


def test_a_new_service_is_pending_of_the_first_generation_and_looked_at(services: Services, told: Told) -> None:
    service = made(services)
    assert (service.generation, service.namespace) == (1, "default")
    assert service.status["conditions"][-1]["type"] == "Pending"
    assert told.woken == [service.uid]
    assert told.announced == 1
    assert services.get("alice", "default", "gate") == service


def test_a_name_is_taken_once_in_a_namespace_of_its_owner(services: Services) -> None:
    made(services)
    with pytest.raises(ServiceExists):
        made(services)
    made(services, namespace="other")
    made(services, user="bob")


def test_a_path_of_a_broadcast_is_taken_once_on_a_node_whoever_owns_the_service(services: Services) -> None:
    shown = {"parameters": {"source": "video:0", "broadcast": "door"}}
    first = made(services, **shown)
    with pytest.raises(Conflict, match="'door'"):
        made(services, "other", user="bob", **shown)
    made(services, "elsewhere", user="bob", **{**shown, "edge": "edge1"})
    other = made(services, "other", user="bob", parameters={"source": "video:0", "broadcast": "yard"})
    with pytest.raises(Conflict, match="'door'"):
        services.replace("bob", "default", other.name, gate("other", **shown), now=NOW)
    again = services.replace("alice", "default", first.name, gate(**shown, algorithm="CloudOnly"), now=NOW)
    services.delete("alice", "default", again.name, now=NOW)
    services.replace("bob", "default", other.name, gate("other", **shown), now=NOW)


def test_services_on_the_nodes_of_a_selector_have_paths_of_their_own(services: Services) -> None:
    def fleet(name: str) -> dict[str, Any]:
        document = gate(name, parameters={"source": "video:0", "broadcast": "door"})
        del document["spec"]["edgeWorker"]["nodeName"]
        document["spec"]["edgeWorker"]["nodeSelector"] = {"site": "berlin"}
        return document

    made(services, parameters={"source": "video:0", "broadcast": "door"})
    services.create("bob", fleet("all"), now=NOW)
    with pytest.raises(Conflict, match="site=berlin"):
        services.create("alice", fleet("more"), now=NOW)


def test_of_many_who_make_the_same_at_once_one_succeeds(services: Services) -> None:
    problems = together(lambda _: made(services), 6)
    assert [type(problem) for problem in problems] == [ServiceExists] * 5


def test_another_users_service_is_as_if_there_were_none(services: Services) -> None:
    made(services)
    for verb in (
        lambda: services.get("bob", "default", "gate"),
        lambda: services.replace("bob", "default", "gate", gate(), now=NOW),
        lambda: services.merge("bob", "default", "gate", {}, now=NOW),
        lambda: services.put_status("bob", "default", "gate", {}, now=NOW),
        lambda: services.delete("bob", "default", "gate", now=NOW),
        lambda: services.events("bob", "default", "gate"),
    ):
        with pytest.raises(ServiceNotFound):
            verb()
    assert services.page("bob") == ([], None)
    assert services.all("bob")[0] == []
    assert services.changes("bob", 0) == []


def test_a_changed_spec_is_a_new_generation_and_the_same_again_is_no_change(services: Services) -> None:
    first = made(services)
    same = services.replace("alice", "default", "gate", gate(), now=NOW)
    assert same == first
    changed = services.replace("alice", "default", "gate", gate(edge="edge1"), now=NOW)
    assert changed.generation == 2
    assert changed.version > first.version
    assert services.events("alice", "default", "gate")[0].type == "Changed"


def test_labels_change_without_a_generation(services: Services) -> None:
    made(services)
    changed = services.merge("alice", "default", "gate", {"metadata": {"labels": {"site": "north"}}}, now=NOW)
    assert (changed.labels, changed.generation) == ({"site": "north"}, 1)
    again = services.merge("alice", "default", "gate", {"metadata": {"labels": {"site": None}}}, now=NOW)
    assert again.labels == {}


def test_a_stale_version_is_refused_and_the_present_one_taken(services: Services) -> None:
    first = made(services)
    old = copy.deepcopy(first.to_resource())
    services.replace("alice", "default", "gate", gate(edge="edge1"), now=NOW)
    with pytest.raises(ServiceChanged):
        services.replace("alice", "default", "gate", old, now=NOW)
    fresh = services.get("alice", "default", "gate").to_resource()
    fresh["spec"]["edgeWorker"]["nodeName"] = "edge2"
    assert services.replace("alice", "default", "gate", fresh, now=NOW).generation == 3


def test_of_many_who_change_one_version_at_once_one_succeeds(services: Services) -> None:
    read = made(services).to_resource()

    def change(at: int) -> None:
        mine = copy.deepcopy(read)
        mine["spec"]["edgeWorker"]["nodeName"] = f"edge{at + 1}"
        services.replace("alice", "default", "gate", mine, now=NOW)

    problems = together(change, 5)
    assert [type(problem) for problem in problems] == [ServiceChanged] * 4


def test_what_is_invalid_changes_nothing(services: Services) -> None:
    made(services)
    with pytest.raises(InvalidResource):
        services.merge("alice", "default", "gate", {"spec": {"edgeWorker": {"model": None}}}, now=NOW)
    for patch in ({"metadata": None}, {"metadata": "text"}, {"spec": 7}, "text", None):
        with pytest.raises(BadInput):
            services.merge("alice", "default", "gate", patch, now=NOW)
    with pytest.raises(BadInput, match="name in the path"):
        services.replace("alice", "default", "gate", gate("other"), now=NOW)
    assert services.get("alice", "default", "gate").generation == 1


def test_apply_makes_and_then_replaces(services: Services) -> None:
    assert services.apply("alice", gate(), now=NOW)[1] is True
    changed, is_new = services.apply("alice", gate(edge="edge1"), now=NOW)
    assert (changed.generation, is_new) == (2, False)


def test_pages_are_newest_first_and_filtered(services: Services) -> None:
    for number in range(5):
        services.create("alice", gate(f"gate-{number}"), now=NOW + timedelta(seconds=number))
    services.create("alice", gate("door", namespace="other"), now=NOW)
    first, cursor = services.page("alice", namespace="default", limit=3)
    rest, end = services.page("alice", namespace="default", limit=3, cursor=cursor)
    assert [s.name for s in (*first, *rest)] == ["gate-4", "gate-3", "gate-2", "gate-1", "gate-0"]
    assert end is None
    assert [s.name for s in services.page("alice", text="GATE-3")[0]] == ["gate-3"]
    assert services.page("alice", text="%")[0] == []
    assert len(services.page("alice", state="Pending")[0]) == 6
    assert services.page("alice", state="Running")[0] == []
    with pytest.raises(BadInput):
        services.page("alice", cursor="damaged")


def test_who_watches_sees_each_change_once_in_order_and_that_it_went(services: Services, database: Database) -> None:
    _, version = services.all("alice")
    made(services, "a")
    made(services, "b")
    services.replace("alice", "default", "a", gate("a", edge="edge1"), now=NOW)
    seen = services.changes("alice", version)
    assert [service.name for service in seen] == ["b", "a"]
    assert services.changes("alice", seen[-1].version) == []
    deleted = services.delete("alice", "default", "b", now=NOW)
    assert services.changes("alice", seen[-1].version) == [deleted]
    with database.write() as conn:
        store.change_service(conn, deleted, gone_at="2026-11-22T12:00:01.000Z")
    assert services.changes("alice", deleted.version)[0].gone_at
    with pytest.raises(ServiceNotFound):
        services.get("alice", "default", "b")
    made(services, "b")


def test_each_change_of_the_current_condition_is_an_event(services: Services, database: Database) -> None:
    service = made(services)
    for at, kind in (("2", ConditionType.RUNNING), ("3", ConditionType.RUNNING), ("4", ConditionType.FAILED)):
        conditions = conditions_after(service.status["conditions"], Condition(kind, "R", "m"), None, at)
        with database.write() as conn:
            changed = store.change_service(conn, service, status={"conditions": conditions})
        assert changed is not None
        service = changed
    events = services.events("alice", "default", "gate")
    assert [(event.type, event.at) for event in events][:2] == [("Failed", "4"), ("Running", "2")]


def test_the_events_of_a_service_that_changes_for_ever_do_not_grow(services: Services, database: Database) -> None:
    service = made(services)
    with database.write() as conn:
        for number in range(250):
            store.add_event(conn, service.uid, f"{number:04}", type="Running", reason="R", message="")
        assert len(store.events_of(conn, service.uid, 1000)) == 200
        assert store.events_of(conn, service.uid, 1)[0].at == "0249"


def test_only_the_newest_samples_are_kept(services: Services, database: Database) -> None:
    service = made(services)

    def sample(number: int) -> Sample:
        """By a clock of its own, that goes backwards."""
        return Sample(f"s{number}", f"{1000 - number:04}", 8, 8, "why", 0.5, Source.CLOUD, Prediction())

    def put(conn: Connection, number: int) -> list[str]:
        return store.put_sample(conn, service.uid, sample(number), "image/png", at=f"{number:04}", keep=20)

    with database.write() as conn:
        gone = [g for n in range(23) for g in put(conn, n)]
        assert gone == ["s0", "s1", "s2"]
        assert put(conn, 22) == []
        kept = store.samples_of(conn, service.uid)
    assert [one.id for one in kept][:2] == ["s22", "s21"]
    assert len(kept) == 20
    assert kept[0] == sample(22)


def test_those_that_went_are_forgotten_after_a_while(services: Services, database: Database) -> None:
    service = made(services)
    with database.write() as conn:
        store.change_service(conn, service, gone_at="2026-11-22T12:00:01.000Z")
        assert store.list_gone_before(conn, "2026-11-22T12:00:01.000Z") == []
        assert store.list_gone_before(conn, "2026-11-22T12:00:02.000Z") == [service.uid]
        store.forget(conn, [service.uid])
        assert store.by_uid(conn, service.uid) is None
