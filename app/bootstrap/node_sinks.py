"""Has nodes deliver to sinks: each is ordered what it needs for that, and reports how far it is.

A node goes on with what it was ordered as long as there are sinks, also when it makes no more rows: some may wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import partial

from sqlalchemy import Connection

from app.joint_inference.model.resource import PLURAL, Role
from app.joint_inference.service.producers import KIND as JOINT
from app.joint_inference.service.producers import ServiceProducers
from app.kit.access import EnabledOf
from app.kit.sql import Database
from app.kit.text.json_values import JsonObject
from app.nodes.model import Node, Operation, WorkKey
from app.nodes.service import Nodes
from app.results import store
from app.results.model.rule import RuleSet
from app.results.model.sink import NODE_SINKS, PART, SentBy, Sink, SinkOrder, SinkProgress
from app.results.senders import TRY_S
from app.results.service.producers import ByKind, find_producer
from app.video.model.job import JOBS
from app.video.model.job import PART as RUNNER
from app.video.service.producers import KIND as VIDEO
from app.video.service.producers import VideoProducers

MAKERS = (JOBS, RUNNER), (PLURAL, Role.EDGE.value), (NODE_SINKS, PART)
"""Kinds and parts of the orders of what makes rows, and of what delivers them."""
NOTHING: JsonObject = {**vars(SinkProgress()), "by_node": {}}
"""What nodes have reported of a sink would make another order each time."""
TEST_S = TRY_S + 10.0
"""How long the answers of nodes to a test are waited for."""
LOOK_S = 0.1


@dataclass(eq=False)
class NodeSinks:
    """enabled_of: those of these users who are enabled; what the others have seen waits."""

    database: Database
    nodes_of: Callable[[], Nodes]
    enabled_of: EnabledOf
    kinds: ByKind = field(default_factory=lambda: {VIDEO: VideoProducers(), JOINT: ServiceProducers()})

    def reconcile(self, uid: str) -> None:
        """Orders what is to be delivered now for a producer. Idempotent."""
        nodes = self.nodes_of()
        with self.database.read() as conn:
            producer = find_producer(conn, self.kinds, uid)
        is_paused = producer is not None and not self.enabled_of([producer.owner])
        with self.database.write() as conn:
            stored = [sink for sink in store.sinks_of(conn, uid) if sink.sent_by is SentBy.NODE]
            sinks = [replace(sink, **{**NOTHING, "test_id": sink.test_id}) for sink in stored]
            if producer is None or not sinks:
                changed = nodes.withdraw(conn, NODE_SINKS, uid)
            else:
                shown = replace(producer, owner="", title="", is_over=False)
                order = SinkOrder(shown, tuple(sinks), store.get_rules(conn, uid) or RuleSet(), is_paused)
                key, content = WorkKey(NODE_SINKS, uid, PART), order.to_json()
                put = partial(nodes.order, conn, key=key, namespace="", name=uid, generation=0, content=content)
                changed = [node for node in self._list_nodes(conn, uid) if put(node)]
        for node in changed:
            nodes.notify(node)

    def reconcile_all(self) -> None:
        """Does so for all producers: some have gone, or their users are disabled, or enabled again."""
        with self.database.read() as conn:
            uids = {order.key.uid for order in self.nodes_of().orders_of_kind(conn, NODE_SINKS)}
            uids |= store.uids_of_node_sinks(conn)
        for uid in uids:
            self.reconcile(uid)

    def node_changed(self, node: Node, keys: Collection[WorkKey]) -> None:
        """Listens to nodes: what they deliver, and what may run elsewhere now."""
        if node.report.sinks:
            with self.database.write() as conn:
                store.put_progress(conn, node.name, node.report.sinks)
        if keys:
            with self.database.read() as conn:
                uids = store.uids_of_node_sinks(conn) & {key.uid for key in keys}
            for uid in uids:
                self.reconcile(uid)

    def test(self, sink: Sink, test_id: str) -> str:
        """Has each of its nodes send a test. Returns why one was not accepted; empty: all were."""
        with self.database.write() as conn:
            store.change_sink(conn, sink.sink_id, test_id=test_id)
            nodes = self._list_nodes(conn, sink.uid)
        if not nodes:
            return "no node runs it"
        self.reconcile(sink.uid)
        waiting, until = set(nodes), time.monotonic() + TEST_S
        while waiting and time.monotonic() < until:
            time.sleep(LOOK_S)
            with self.database.read() as conn:
                reports = [one.by_node for one in store.sinks_of(conn, sink.uid) if one.sink_id == sink.sink_id]
            answers = {node: one for by_node in reports for node, one in by_node.items() if one.test_id == test_id}
            for node in answers.keys() & waiting:
                if problem := answers[node].test_problem:
                    return problem if len(nodes) == 1 else f"node {node}: {problem}"
            waiting -= answers.keys()
        return f"no answer of {', '.join(sorted(waiting))} within {TEST_S:g} s" if waiting else ""

    def _list_nodes(self, conn: Connection, uid: str) -> set[str]:
        """Returns the nodes that run a producer, or still deliver for it."""
        orders = [order for kind, _ in MAKERS for order in self.nodes_of().orders_of(conn, kind, uid)]
        present = [order for order in orders if order.operation is not Operation.DELETE]
        return {order.node for order in present if (order.key.kind, order.key.part) in MAKERS}
