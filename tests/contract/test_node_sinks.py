"""What nodes report of sinks, kept in either database."""

from __future__ import annotations

import pytest

from app.kit.sql import Database
from app.results import store
from app.results.model.sink import SentBy, Sink, SinkContent, SinkKind, SinkProgress
from tests.harness.databases import accounts, database, empty, url

__all__ = ["accounts", "database", "empty", "url"]
NOW = "2026-11-29T12:00:00.000Z"


def _sink(number: int, sent_by: SentBy) -> Sink:
    address = "mqtt://a:b@192.168.1.5/a"
    return Sink(
        f"{number:032x}", "j1", SinkKind.MQTT, SinkContent.ROWS, address, "", NOW, 0, due_at="", sent_by=sent_by
    )


@pytest.mark.usefixtures("accounts")
def test_what_several_nodes_report_is_added_up(database: Database) -> None:
    here, there = _sink(1, SentBy.SERVER), _sink(2, SentBy.NODE)
    with database.write() as conn:
        for sink in (here, there):
            store.add_sink(conn, sink)
        assert store.sinks_of(conn, "j1") == [here, there]
        assert store.uids_of_node_sinks(conn) == {"j1"}
    reports = {
        "edge0": SinkProgress(delivered=3, queued=1),
        "edge1": SinkProgress(delivered=2, tries=4, problem="gone"),
    }
    for node, report in reports.items():
        with database.write() as conn:
            store.put_progress(conn, node, {sink_id: report for sink_id in (there.sink_id, here.sink_id, "f" * 32)})
    with database.write() as conn:
        unchanged, summed = store.sinks_of(conn, "j1")
        assert unchanged == here
        assert (summed.by_node, summed.delivered, summed.problem) == (reports, 5, "node edge1: gone")
        assert [store.backlog_of(conn, sink) for sink in (here, summed)] == [0, 1]
        assert store.lease_sinks(conn, NOW, until=NOW, latest=NOW, limit=5) == []
        assert store.has_sinks(conn, "j1")
        store.remove_sink(conn, "j1", here.sink_id)
        assert not store.has_sinks(conn, "j1"), "none to which this server delivers"
