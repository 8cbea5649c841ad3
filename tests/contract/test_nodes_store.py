"""One suite over both databases: who the nodes are, what they say, and what they are told until they have heard it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from app.accounts.credentials import SecretHasher
from app.kit.sql import Database
from app.nodes.errors import BadNodeName, NodeBusy, NodeExists, NodeNotFound
from app.nodes.model import Node, NodeReport, Operation, Order, Side, WorkerReport, WorkerState, WorkKey
from app.nodes.service import NodeListeners, Nodes
from tests.harness.databases import database, empty, together, url

__all__ = ["database", "empty", "url"]
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
KEY = WorkKey("jointinferenceservices", "u1", "edge")
SHA = "a" * 64
CONTENT = {"model": {"sha256": SHA, "labels": ["one", "two"]}, "說明": "好"}


class Heard:
    """What on_change was told, and who was notified."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, set[WorkKey]]] = []
        self.notified: list[str] = []

    def changed(self, node: Node, keys: Collection[WorkKey]) -> None:
        self.changes.append((node.name, set(keys)))

    def taken(self) -> list[tuple[str, set[WorkKey]]]:
        changes, self.changes = self.changes, []
        return changes


def opened(database: Database, heard: Heard | None = None) -> Nodes:
    heard = heard or Heard()
    listeners = NodeListeners(changed=[heard.changed])
    return Nodes(database, SecretHasher("a key"), heard.notified.append, listeners=listeners)


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def nodes(database: Database, heard: Heard) -> Nodes:
    made = opened(database, heard)
    for name in ("edge0", "edge1"):
        made.register(name, Side.EDGE, now=NOW)
    return made


def tell(nodes: Nodes, node: str = "edge0", key: WorkKey = KEY, **changes: Any) -> bool:
    what = {"namespace": "default", "name": "helmets", "generation": 1, "content": CONTENT, **changes}
    with nodes.database.write() as conn:
        return nodes.order(conn, node, key, **what)


def withdraw(nodes: Nodes, part: str | None = None, but: str = "") -> list[str]:
    with nodes.database.write() as conn:
        return nodes.withdraw(conn, KEY.kind, KEY.uid, part, but=but)


def orders(nodes: Nodes) -> list[Order]:
    with nodes.database.read() as conn:
        return nodes.orders_of(conn, KEY.kind, KEY.uid)


def acknowledge_all(nodes: Nodes) -> None:
    nodes.acknowledge("edge0", [order.seq for order in nodes.pending("edge0")])


def said(nodes: Nodes, *workers: WorkerReport, after_s: float = 0, address: str = "10.0.0.1") -> None:
    nodes.report(
        "edge0",
        NodeReport(cpu=0.5, accelerators=("KL720",), workers=workers),
        address=address,
        version="1.2",
        now=NOW + timedelta(seconds=after_s),
    )


WORKER = WorkerReport(KEY, "default", "helmets", "little", 1, WorkerState.RUNNING, pid=7, log=("a", "名"))


# --- who they are ---------------------------------------------------------------------------------
def test_a_node_is_known_by_its_token_alone(nodes: Nodes) -> None:
    made, token = nodes.register("edge2", Side.EDGE, now=NOW)
    assert nodes.authenticate(token) == "edge2"
    assert nodes.get("edge2") == made == Node("edge2", Side.EDGE, "2026-11-20T12:00:00.000Z")
    other = token.replace("edge2", "edge0")
    for wrong in (other, token[:-1] + ("0" if token[-1] != "0" else "1"), token + "0", token.upper(), "", "mm_x_y"):
        assert nodes.authenticate(wrong) is None
    assert nodes.authenticate(token.replace("edge2", "nobody")) is None


def test_a_new_token_ends_the_old_one_and_keeps_what_the_node_is_told(nodes: Nodes, heard: Heard) -> None:
    _, old = nodes.register("edge2", Side.EDGE, now=NOW)
    tell(nodes, "edge2")
    heard.notified.clear()
    node, token = nodes.register("edge2", Side.HOST, now=NOW + timedelta(days=1), replace=True)
    assert nodes.authenticate(old) is None
    assert nodes.authenticate(token) == "edge2"
    assert (node.side, node.created_at) == (Side.HOST, "2026-11-20T12:00:00.000Z")
    assert len(nodes.pending("edge2")) == 1
    assert heard.notified == ["edge2"]


def test_a_name_is_taken_once_and_is_one_of_a_host(nodes: Nodes) -> None:
    with pytest.raises(NodeExists):
        nodes.register("edge0", Side.EDGE, now=NOW)
    for name in ("", "Edge", "a_b", "-a", "a-", "a/b", "a" * 64, "a\n", "new"):
        with pytest.raises(BadNodeName):
            nodes.register(name, Side.EDGE, now=NOW)
    assert [node.name for node in nodes.all()] == ["edge0", "edge1"]


def test_of_many_who_register_one_name_at_once_one_does(database: Database) -> None:
    nodes = opened(database)
    problems = together(lambda _: nodes.register("edge0", Side.EDGE, now=NOW), 6)
    assert [type(problem) for problem in problems] == [NodeExists] * 5


def test_what_every_node_is_given_keeps_none(database: Database) -> None:
    nodes = Nodes(
        database, SecretHasher("a key"), lambda _: None, listeners=NodeListeners(standing=frozenset({"videoservices"}))
    )
    nodes.register("edge0", Side.EDGE, now=NOW)
    tell(nodes, key=WorkKey("videoservices", "edge0", "services"))
    nodes.remove("edge0")
    assert (nodes.find("edge0"), orders(nodes)) == (None, [])


def test_a_node_with_work_is_not_removed_and_one_that_only_has_to_end_it_is(nodes: Nodes, heard: Heard) -> None:
    tell(nodes)
    with pytest.raises(NodeBusy, match=r"'edge0' is to run \S+\.$"):
        nodes.remove("edge0")
    withdraw(nodes)
    nodes.remove("edge0")
    assert (nodes.find("edge0"), orders(nodes)) == (None, [])
    assert heard.taken() == [("edge0", {KEY})]
    with pytest.raises(NodeNotFound):
        nodes.remove("edge0")


# --- what they say --------------------------------------------------------------------------------
def test_what_a_node_says_is_read_back_as_it_was(nodes: Nodes) -> None:
    worker = replace(WORKER, exit_code=-9, detail={"runtime": "npu", "list": [1, 2]}, log=("one", "兩"))
    said(nodes, worker)
    node = nodes.get("edge0")
    assert (node.address, node.version, node.last_seen_at) == ("10.0.0.1", "1.2", "2026-11-20T12:00:00.000Z")
    assert (node.report.workers, node.report.accelerators, node.report.cpu) == ((worker,), ("KL720",), 0.5)


def test_a_report_of_nobody_is_refused(nodes: Nodes) -> None:
    with pytest.raises(NodeNotFound):
        nodes.report("nobody", NodeReport(), address="", version="", now=NOW)


@pytest.mark.parametrize(
    "change",
    [
        {"state": WorkerState.BACKOFF},
        {"address": "10.0.0.1:9000"},
        {"restarts": 1},
        {"exit_code": 1},
        {"reason": "Ended"},
        {"message": "why"},
        {"pid": 8},
        {"generation": 2},
        {"log": ("b",)},
        {"detail": {"runtime": "npu"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_difference_of_a_worker_is_told_once(nodes: Nodes, heard: Heard, change: Mapping[str, Any]) -> None:
    other = replace(WORKER, key=replace(KEY, uid="u2"))
    said(nodes, WORKER, other)
    heard.taken()
    said(nodes, other, WORKER, after_s=1)
    assert heard.taken() == []
    for after_s in (2, 3):
        said(nodes, replace(WORKER, **change), other, after_s=after_s)
    assert heard.taken() == [("edge0", {KEY})]


def test_a_worker_that_comes_and_one_that_goes_are_told(nodes: Nodes, heard: Heard) -> None:
    said(nodes)
    heard.taken()
    said(nodes, WORKER, after_s=1)
    said(nodes, after_s=2)
    assert heard.taken() == [("edge0", {KEY})] * 2


def test_a_change_of_what_a_node_offers_is_told_once(nodes: Nodes, heard: Heard) -> None:
    offers = {"videojobs": {"videos": {"0": {"type": "traffic flow"}}}}
    nodes.report("edge0", NodeReport(), address="", version="", now=NOW)
    heard.taken()
    for _ in range(2):
        nodes.report("edge0", NodeReport(offers=offers), address="", version="", now=NOW)
    assert heard.taken() == [("edge0", set())]
    assert nodes.get("edge0").report.offers == offers


def test_a_node_that_comes_back_is_told_with_all_its_work(nodes: Nodes, heard: Heard) -> None:
    ordered = replace(KEY, uid="u2")
    tell(nodes, key=ordered)
    said(nodes, WORKER)
    assert heard.taken() == [("edge0", {KEY, ordered})]
    said(nodes, WORKER, after_s=29)
    assert heard.taken() == []
    said(nodes, WORKER, after_s=59)
    assert heard.taken() == [("edge0", {KEY, ordered})]


def test_a_node_that_moves_is_told_with_all_its_work(nodes: Nodes, heard: Heard) -> None:
    said(nodes, WORKER)
    heard.taken()
    said(nodes, WORKER, after_s=1, address="10.0.0.2")
    assert heard.taken() == [("edge0", {KEY})]


def test_each_fall_into_silence_is_told_once(nodes: Nodes, heard: Heard) -> None:
    said(nodes, WORKER)
    heard.taken()
    looks = [NOW + timedelta(seconds=at) for at in (1, 21, 29.9, 30, 32, 34)]
    assert [nodes.look_for_changes(look) for look in looks] == [False, True, True, False, False, False]
    assert heard.taken() == [("edge0", {KEY})]
    said(nodes, WORKER, after_s=40)
    heard.taken()
    for after_s in (50, 69, 71, 73):
        nodes.look_for_changes(NOW + timedelta(seconds=after_s))
    assert heard.taken() == [("edge0", {KEY})]


def test_who_takes_over_looking_tells_of_the_silent_again(nodes: Nodes, heard: Heard) -> None:
    said(nodes, WORKER)
    nodes.look_for_changes(NOW + timedelta(seconds=31))
    heir = Heard()
    opened(nodes.database, heir).look_for_changes(NOW + timedelta(seconds=33))
    assert heir.taken() == [("edge0", {KEY})]


# --- what they are told ---------------------------------------------------------------------------
def test_an_order_waits_until_it_is_acknowledged_and_the_same_again_is_none(nodes: Nodes) -> None:
    assert tell(nodes)
    first = nodes.pending("edge0")
    assert [(order.operation, order.key, order.name, order.content) for order in first] == [
        (Operation.INSERT, KEY, "helmets", CONTENT)
    ]
    assert not tell(nodes)
    assert nodes.pending("edge0") == first
    assert nodes.pending("edge1") == []
    acknowledge_all(nodes)
    assert not tell(nodes)
    assert nodes.pending("edge0") == []
    assert [order.is_acknowledged for order in orders(nodes)] == [True]


@pytest.mark.parametrize(
    "change",
    [{"generation": 2}, {"content": {}}, {"name": "other"}, {"namespace": "other"}],
    ids=lambda change: next(iter(change)),
)
def test_a_change_is_an_insert_until_the_node_knows_a_former_one_and_then_an_update(
    nodes: Nodes, change: dict[str, Any]
) -> None:
    tell(nodes)
    tell(nodes, **change)
    assert [order.operation for order in nodes.pending("edge0")] == [Operation.INSERT]
    acknowledge_all(nodes)
    tell(nodes)
    tell(nodes, **change)
    assert [order.operation for order in nodes.pending("edge0")] == [Operation.UPDATE]


def test_an_acknowledgement_of_what_was_replaced_or_is_anothers_says_nothing(nodes: Nodes) -> None:
    tell(nodes)
    old = nodes.pending("edge0")[0].seq
    tell(nodes, generation=2)
    new = nodes.pending("edge0")[0].seq
    nodes.acknowledge("edge0", [old, 999])
    nodes.acknowledge("edge1", [new])
    nodes.acknowledge("edge0", [])
    assert [order.seq for order in nodes.pending("edge0")] == [new]


def test_each_number_is_used_once_also_after_orders_are_forgotten(nodes: Nodes) -> None:
    seen: list[int] = []
    for _ in range(3):
        tell(nodes)
        withdraw(nodes)
        seen += [order.seq for order in orders(nodes)]
        acknowledge_all(nodes)
    assert orders(nodes) == []
    assert seen == sorted(set(seen))
    assert len(seen) == 3


def test_orders_that_are_given_at_once_have_numbers_of_their_own(nodes: Nodes) -> None:
    assert together(lambda at: tell(nodes, key=replace(KEY, uid=f"u{at}")), 8) == []
    assert len({order.seq for order in nodes.pending("edge0")}) == 8


def test_one_order_that_is_given_by_many_at_once_is_new_at_least_once_and_stands_once(nodes: Nodes) -> None:
    news: list[bool] = []
    together(lambda _: news.append(tell(nodes)), 6)
    assert len(news) == 6
    assert any(news)
    assert len(nodes.pending("edge0")) == 1


def test_what_is_ordered_of_no_node_is_refused(nodes: Nodes) -> None:
    with pytest.raises(NodeNotFound):
        tell(nodes, "nobody")


def test_withdrawing_spares_other_parts_and_the_node_that_is_to_keep_it(nodes: Nodes) -> None:
    cloud = replace(KEY, part="cloud")
    for node, key in (("edge0", KEY), ("edge1", KEY), ("edge0", cloud)):
        tell(nodes, node, key)
    assert withdraw(nodes, "edge", but="edge1") == ["edge0"]
    deleted = {(order.node, order.key.part) for order in orders(nodes) if order.operation is Operation.DELETE}
    assert deleted == {("edge0", "edge")}
    assert withdraw(nodes) == ["edge0", "edge1"]
    assert withdraw(nodes) == []


def test_a_delete_stays_until_its_node_has_acknowledged_it(nodes: Nodes, heard: Heard) -> None:
    tell(nodes)
    acknowledge_all(nodes)
    withdraw(nodes)
    (deletion,) = nodes.pending("edge0")
    assert (deletion.operation, deletion.key, deletion.content) == (Operation.DELETE, KEY, {})
    nodes.acknowledge("edge0", [deletion.seq])
    assert (orders(nodes), heard.taken()) == ([], [("edge0", {KEY})])


def test_what_is_wanted_again_before_its_end_was_acknowledged_is_inserted_again(nodes: Nodes) -> None:
    tell(nodes)
    acknowledge_all(nodes)
    withdraw(nodes)
    (deletion,) = nodes.pending("edge0")
    assert tell(nodes)
    nodes.acknowledge("edge0", [deletion.seq])
    assert [order.operation for order in nodes.pending("edge0")] == [Operation.INSERT]


def test_a_node_that_forgot_is_told_again_and_one_that_knows_is_not(nodes: Nodes) -> None:
    lost, kept = replace(KEY, uid="u2"), replace(KEY, uid="u3")
    for key in (lost, kept):
        tell(nodes, key=key)
        acknowledge_all(nodes)
    for key in (lost, kept):
        tell(nodes, key=key, generation=2)
    seqs = {order.key: order.seq for order in nodes.pending("edge0")}
    acknowledge_all(nodes)
    nodes.synchronise("edge0", {str(kept): seqs[kept]})
    assert [(order.key, order.operation, order.seq) for order in nodes.pending("edge0")] == [
        (lost, Operation.INSERT, seqs[lost])
    ]


def test_a_node_whose_acknowledgement_was_lost_is_not_told_again(nodes: Nodes) -> None:
    tell(nodes)
    nodes.synchronise("edge0", {str(KEY): nodes.pending("edge0")[0].seq})
    assert nodes.pending("edge0") == []


def test_a_node_with_an_older_content_is_told_the_newest_as_an_update(nodes: Nodes) -> None:
    tell(nodes)
    old = nodes.pending("edge0")[0].seq
    acknowledge_all(nodes)
    tell(nodes, generation=2)
    acknowledge_all(nodes)
    nodes.synchronise("edge0", {str(KEY): old})
    assert [(order.operation, order.generation) for order in nodes.pending("edge0")] == [(Operation.UPDATE, 2)]


def test_what_a_node_should_not_have_is_withdrawn(nodes: Nodes) -> None:
    nodes.synchronise("edge0", {str(KEY): 17})
    (deletion,) = nodes.pending("edge0")
    assert (deletion.operation, deletion.key) == (Operation.DELETE, KEY)
    assert deletion.seq != 17


def test_a_delete_that_a_node_missed_is_still_there_when_it_connects(nodes: Nodes) -> None:
    tell(nodes)
    seq = nodes.pending("edge0")[0].seq
    acknowledge_all(nodes)
    withdraw(nodes)
    for known in ({str(KEY): seq}, {}):
        nodes.synchronise("edge0", known)
        assert [order.operation for order in nodes.pending("edge0")] == [Operation.DELETE]


def test_whenever_a_node_connects_all_its_work_is_looked_at(nodes: Nodes, heard: Heard) -> None:
    said(nodes, WORKER)
    heard.taken()
    nodes.synchronise("edge0", {})
    assert heard.taken() == [("edge0", {KEY})]
    with pytest.raises(NodeNotFound):
        nodes.synchronise("nobody", {})


def test_a_node_may_read_the_files_that_its_orders_name_and_no_others(nodes: Nodes) -> None:
    tell(nodes, content={"model": {"sha256": SHA, "twin_sha256": "b" * 64}, "words": [{"value": "c" * 64}]})
    assert nodes.may_read("edge0", SHA)
    assert nodes.may_read("edge0", "b" * 64)
    assert not nodes.may_read("edge0", "c" * 64)
    assert not nodes.may_read("edge1", SHA)
    assert not nodes.may_read("edge0", "%")
    withdraw(nodes)
    assert not nodes.may_read("edge0", SHA)
