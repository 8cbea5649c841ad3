"""Metrics of sinks: how much each has accepted, and whether it does."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from app.kit.sql import Database
from app.kit.sql.timeboxed_query import TimeboxedQuery
from app.results import store
from app.results.model.sink import Sink

LABELS = ("producer", "kind", "sink")


class SinkCollector(Collector):
    """Yields nothing while the database does not answer."""

    def __init__(self, database: Database) -> None:
        self._query: TimeboxedQuery[list[Sink]] = TimeboxedQuery(database, store.all_sinks)

    def collect(self) -> Iterable[Metric]:
        sinks = self._query.take()
        if sinks is None:
            return
        delivered = CounterMetricFamily("modelmill_sink_delivered", "Messages that a sink has taken.", labels=LABELS)
        failing = GaugeMetricFamily("modelmill_sink_failing", "1 while a sink takes nothing.", labels=LABELS)
        skipped = CounterMetricFamily(
            "modelmill_sink_skipped", "Messages that were too large for a sink and were left out.", labels=LABELS
        )
        for sink in sinks:
            labels = (sink.uid, sink.kind.value, sink.sink_id)
            delivered.add_metric(labels, sink.delivered)
            failing.add_metric(labels, int(bool(sink.problem)))
            skipped.add_metric(labels, sink.skipped)
        yield from (delivered, failing, skipped)
