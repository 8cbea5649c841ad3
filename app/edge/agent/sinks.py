"""The sinks to which a node delivers itself: the web server orders them, workers report the rows."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from app.edge.agent.sink_queue import Envelopes, SinkQueue, TakenRows
from app.kit.clock import now, to_text
from app.kit.network.addresses import Network
from app.kit.network.public_hosts import NOT_PUBLIC
from app.kit.text.json_form import FormError
from app.kit.text.untrusted_json import read_object
from app.nodes.model import Operation, Order
from app.results.model.frame_result import FrameRecord, moment_of
from app.results.model.rule_evaluation import EvaluationState, evaluate_origins
from app.results.model.sink import (
    PAUSE,
    Delivery,
    Sink,
    SinkContent,
    SinkOrder,
    SinkProgress,
    TooLarge,
    event_delivery,
    row_delivery,
    test_delivery,
)
from app.results.senders import network_senders, try_to_send

NOT_ALLOWED = "the agent of this node allows such networks with --sink-networks"
Send = Callable[[Sink, Sequence[Delivery]], "asyncio.Future[str]"]
logger = logging.getLogger(__name__)


class SinkDelivery:
    """Delivers what waits for one sink, in order, until it is accepted; `added` is set when more waits. A slow receiver
    keeps only this one waiting. `on_change` is called when it fails, works again, or has answered a test."""

    def __init__(self, sink: Sink, queue: SinkQueue, send: Send, on_change: Callable[[], None]) -> None:
        self._queue, self._send, self._on_change = queue, send, on_change
        self._progress = queue.open(sink.sink_id, sink.uid)
        self._test_id = self._progress.test_id
        self.added, self._changed = asyncio.Event(), asyncio.Event()
        self._tasks = {asyncio.create_task(self._run())}

    def change(self, sink: Sink, order: SinkOrder) -> None:
        """It is ordered, perhaps anew."""
        self._sink, self._order = sink, order
        self._changed.set()
        self.added.set()
        if sink.test_id != self._test_id:
            self._test_id = sink.test_id
            self._tasks.add(asyncio.create_task(self._test(sink.test_id)))

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _run(self) -> None:
        while True:
            self.added.clear()
            self._changed.clear()
            try:
                pause_s = await self._deliver()
            except Exception:  # as on a full disk; the other sinks go on
                logger.exception("What a sink has accepted could not be kept, so it is sent again")
                pause_s = PAUSE.first_s
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await (self._changed if pause_s else self.added).wait()

    async def _deliver(self) -> float | None:
        """Delivers until nothing waits, or a try fails. Returns the seconds until the next try; None: nothing waits."""
        while not self._order.is_paused:
            was = self._progress
            sink = replace(self._sink, tries=was.tries, delivered=was.delivered, skipped=was.skipped)
            deliveries = self._queue.oldest(sink.sink_id, sink.parcels)
            if not deliveries:
                break
            try:
                problem = await self._send(sink, deliveries)
                changes = sink.changes_after(deliveries, problem, now())
            except TooLarge as error:
                problem, changes = "", sink.changes_of_too_large(deliveries, str(error))
            self._settle(changes.pop("cursor", 0), **changes)
            if problem:
                return PAUSE.of_try(sink.tries)
        return None

    async def _test(self, test_id: str) -> None:
        try:
            problem = await self._send(self._sink, [test_delivery(self._order.producer, test_id, to_text(now()))])
        except TooLarge as error:
            problem = str(error)
        self._settle(0, test_id=test_id, test_problem=problem[:500])

    def _settle(self, last: int, **changes: Any) -> None:
        before, self._progress = self._progress, replace(self._progress, **changes)
        self._queue.settle(self._sink.sink_id, self._progress, last)
        if (before.problem, before.test_id) != (self._progress.problem, self._progress.test_id):
            self._on_change()


class NodeSinks:
    """The sinks of one agent. What changes something raises sqlite3.Error on a full disk.

    Args:
        networks: private networks that may be sent to.
    """

    def __init__(self, queue: SinkQueue, node: str, networks: Sequence[Network], on_change: Callable[[], None]) -> None:
        self._queue, self._node, self._on_change = queue, node, on_change
        self._senders = network_senders(networks)
        self._pool = ThreadPoolExecutor(64, "sinks")  # tries at the same time, each of another sink
        self._orders = dict[str, SinkOrder]()
        self._deliveries = defaultdict[str, dict[str, SinkDelivery]](dict)

    def apply(self, order: Order) -> None:
        """Carries out an order."""
        uid = order.key.uid
        if order.operation is Operation.DELETE:
            self._close_others(uid, ())
            self._orders.pop(uid, None)
            return
        try:
            content = SinkOrder.from_json(order.content)
        except FormError as error:
            logger.error("What is to be delivered of %s cannot be read: %s", uid, error)
            return
        self._close_others(uid, {sink.sink_id for sink in content.sinks})
        former = self._orders.get(uid, content).rules
        if former != content.rules:
            self._queue.add(uid, self._queue.taken(uid).under(former, content.rules), {})
        deliveries = self._deliveries[uid]
        for sink in content.sinks:
            if sink.sink_id not in deliveries:
                deliveries[sink.sink_id] = SinkDelivery(sink, self._queue, self._send, self._on_change)
            deliveries[sink.sink_id].change(replace(sink, sent_from=self._node), content)
        self._orders[uid] = content

    def add(self, uid: str, body: bytes) -> None:
        """Queues the rows in a report of a worker, and the events of their rules, unless it has been taken in before.

        Args:
            uid: of the producer.
            body: JSON: `results` or `rows`, oldest first; its number as `seq`, or as `run` and `batch`.
        """
        order = self._orders.get(uid)
        if order is None:
            return
        try:
            report, taken = read_object(body), self._queue.taken(uid)
            run, number = str(report.get("run", "")), int(report["seq"] if "seq" in report else report["batch"])
            if run == taken.run and number <= taken.number:
                return
            rows = report.get("results", report.get("rows")) or ()
            following, envelopes = self._read(order, replace(taken, run=run, number=number), rows)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            logger.warning("Rows of %s are not delivered, for they cannot be read: %r", uid, error)
            return
        self._queue.add(uid, following, {sink.sink_id: envelopes[sink.content] for sink in order.sinks})
        for delivery in self._deliveries[uid].values():
            delivery.added.set()

    def reports(self) -> dict[str, SinkProgress]:
        """Returns how far each sink is, by its id."""
        return {one: self._queue.progress(one) for deliveries in self._deliveries.values() for one in deliveries}

    def close(self) -> None:
        for delivery in (one for deliveries in self._deliveries.values() for one in deliveries.values()):
            delivery.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _close_others(self, uid: str, sink_ids: Collection[str]) -> None:
        for sink_id in self._deliveries[uid].keys() - sink_ids:
            self._deliveries[uid].pop(sink_id).close()
        self._queue.keep_only(uid, sink_ids)

    def _send(self, sink: Sink, deliveries: Sequence[Delivery]) -> asyncio.Future[str]:
        def send() -> str:
            problem = try_to_send(self._senders, sink, deliveries)
            return f"{problem.rstrip('.')}: {NOT_ALLOWED}" if problem.endswith(NOT_PUBLIC) else problem

        return asyncio.get_running_loop().run_in_executor(self._pool, send)

    def _read(
        self, order: SinkOrder, taken: TakenRows, rows: Sequence[Mapping[str, Any]]
    ) -> tuple[TakenRows, dict[SinkContent, Envelopes]]:
        """Returns how far the rows are now, and what is to be delivered of them."""
        producer, moment = order.producer, now()
        named = {"node": self._node} if producer.is_fleet else {}
        numbered = ((int(row.get("n_loop", taken.last + place)), row) for place, row in enumerate(rows, 1))
        records = [FrameRecord(n, moment_of(row, moment), {**row, **named}) for n, row in numbered if n > taken.last]
        keys = {record.n_loop: record.row.get("sample", record.n_loop) for record in records}
        judged = records if any(sink.content is SinkContent.EVENTS for sink in order.sinks) else ()
        state_of = defaultdict(EvaluationState, taken.states).__getitem__
        evaluations = evaluate_origins(order.rules, state_of, judged, size=None, by_pts=producer.by_pts)
        states = {**taken.states, **{origin: one.state for origin, one in evaluations.items()}}
        events = sorted((event for one in evaluations.values() for event in one.events), key=lambda one: one.n_loop)
        of_events = [event_delivery(producer, one, f"{one.rule}/{keys[one.n_loop]}").envelope for one in events]
        of_rows = [row_delivery(producer, one, keys[one.n_loop]).envelope for one in records]
        following = replace(taken, last=max([taken.last, *keys]), states=states)
        return following, {SinkContent.ROWS: of_rows, SinkContent.EVENTS: of_events}
