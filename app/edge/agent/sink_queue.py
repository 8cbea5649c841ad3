"""What waits for sinks on the disk of a node, in the agent's database: a queue for each sink, and its progress; and how
far the rows of each producer are taken in. On a full disk, what makes room succeeds, and all else raises sqlite3.Error.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.edge.agent.database import AgentDatabase
from app.results.model.rule import RuleSet
from app.results.model.rule_evaluation import EvaluationState, Origin
from app.results.model.sink import Delivery, SinkProgress

MOST_BYTES = 64 << 20
"""Of one sink; beyond it the oldest are dropped, and counted."""
Envelopes = Sequence[Mapping[str, Any]]
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TakenRows:
    """How far the rows of a producer are taken in."""

    run: str = ""
    number: int = -1
    """Of the last report of this run."""
    last: int = 0
    """Number of the last row."""
    states: Mapping[Origin, EvaluationState] = field(default_factory=dict)
    """Of its rules."""

    def under(self, before: RuleSet, after: RuleSet) -> TakenRows:
        """The same with other rules: those that are as before keep their state."""
        rules = {origin: (before.of(*origin), after.of(*origin)) for origin in self.states}
        return replace(self, states={one: state.following(*rules[one]) for one, state in self.states.items()})


class SinkQueue:
    """The queues of one agent."""

    def __init__(self, database: AgentDatabase) -> None:
        self._database = database
        self._connection = database.connection

    def open(self, sink_id: str, uid: str) -> SinkProgress:
        """A sink without a queue gets one."""
        if self._connection.execute("SELECT 1 FROM sinks WHERE sink_id = ?", (sink_id,)).fetchone() is None:
            insert = "INSERT INTO sinks (sink_id, uid, progress) VALUES (?, ?, '{}')"
            self._write((insert, (sink_id, uid)))
        return self.progress(sink_id)

    def progress(self, sink_id: str) -> SinkProgress:
        query = "SELECT progress, entries, lost FROM sinks WHERE sink_id = ?"
        text, entries, lost = self._connection.execute(query, (sink_id,)).fetchone()
        return replace(SinkProgress.from_json(json.loads(text)), queued=entries, lost=lost)

    def keep_only(self, uid: str, sink_ids: Collection[str]) -> None:
        """Deletes the other sinks of a producer with what waits for them."""
        known = self._connection.execute("SELECT sink_id FROM sinks WHERE uid = ?", (uid,))
        for sink_id in {row[0] for row in known} - set(sink_ids):
            self._write(
                ("DELETE FROM sink_queue WHERE sink_id = ?", (sink_id,)),
                ("DELETE FROM sinks WHERE sink_id = ?", (sink_id,)),
                ("DELETE FROM sink_rows WHERE uid = ? AND ?", (uid, not sink_ids)),
                makes_room=True,
            )

    def oldest(self, sink_id: str, limit: int) -> list[Delivery]:
        query = "SELECT number, envelope FROM sink_queue WHERE sink_id = ? ORDER BY number LIMIT ?"
        rows = self._connection.execute(query, (sink_id, limit))
        return [Delivery(number, json.loads(envelope)) for number, envelope in rows]

    def settle(self, sink_id: str, progress: SinkProgress, last: int) -> None:
        """Stores the progress of a sink, and removes the entries up to this number."""
        text = json.dumps(progress.to_json())
        self._write(
            ("DELETE FROM sink_queue WHERE sink_id = ? AND number <= ?", (sink_id, last)),
            ("UPDATE sinks SET progress = ? WHERE sink_id = ?", (text, sink_id)),
            makes_room=True,
        )

    def taken(self, uid: str) -> TakenRows:
        query = "SELECT run, number, last, states FROM sink_rows WHERE uid = ?"
        row = self._connection.execute(query, (uid,)).fetchone()
        if row is None:
            return TakenRows()
        states = {(node, source): EvaluationState.from_json(state) for node, source, state in json.loads(row[3])}
        return TakenRows(row[0], row[1], row[2], states)

    def add(self, uid: str, taken: TakenRows, envelopes: Mapping[str, Envelopes]) -> None:
        """Stores how far the rows of a producer are, with what is to be delivered of them, by the ids of its sinks. The
        oldest are dropped, and counted, if there are too many bytes."""
        states = json.dumps([[*origin, state.to_json()] for origin, state in taken.states.items()])
        put = "INSERT OR REPLACE INTO sink_rows VALUES (?, ?, ?, ?, ?)"
        texts = [(sink_id, json.dumps(one)) for sink_id, some in envelopes.items() for one in some]
        insert = "INSERT INTO sink_queue (sink_id, bytes, envelope) VALUES (?, ?, ?)"
        inserts = [(insert, (sink_id, len(text), text)) for sink_id, text in texts]
        self._write((put, (uid, taken.run, taken.number, taken.last, states)), *inserts)
        for sink_id in envelopes:
            self._drop(sink_id)

    def _drop(self, sink_id: str) -> None:
        query = "SELECT bytes FROM sinks WHERE sink_id = ?"
        if self._connection.execute(query, (sink_id,)).fetchone()[0] <= MOST_BYTES:
            return
        totals = "SELECT number, SUM(bytes) OVER (ORDER BY number DESC) AS total FROM sink_queue WHERE sink_id = ?"
        query = f"SELECT COUNT(*), MAX(number) FROM ({totals}) WHERE total > ?"  # noqa: S608  # constants
        count, last = self._connection.execute(query, (sink_id, MOST_BYTES - MOST_BYTES // 16)).fetchone()
        self._write(
            ("DELETE FROM sink_queue WHERE sink_id = ? AND number <= ?", (sink_id, last)),
            ("UPDATE sinks SET lost = lost + ? WHERE sink_id = ?", (count, sink_id)),
            makes_room=True,
        )
        logger.warning("A sink has accepted nothing for too long: %d of the oldest entries are lost.", count)

    def _write(self, *statements: tuple[str, tuple[Any, ...]], makes_room: bool = False) -> None:
        """Executes all of them or none."""

        def change() -> None:
            with self._connection:
                for statement, values in statements:
                    self._connection.execute(statement, values)

        self._database.write(change, makes_room=makes_room)
