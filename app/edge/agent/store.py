"""The persistent state of an agent, in one SQLite file: its token, its orders, which process runs for which order, and
its unsent reports."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.edge.agent.database import AgentDatabase
from app.edge.agent.report_store import ReportStore
from app.edge.agent.sink_queue import SinkQueue
from app.nodes.model import Operation, Order, WorkerState, WorkKey

_OF_KEY = "kind = ? AND uid = ? AND part = ?"


@dataclass(frozen=True)
class WorkerRecord:
    """What is stored about a worker for the next agent."""

    port: int = 0
    """0 if none was chosen yet."""
    serves: bool = False
    """True if others reach the worker at its port."""
    is_encrypted: bool = False
    """True if by encrypted connections only."""
    pid: int = 0
    """0 if it has no process."""
    identity: str = ""
    """Distinguishes the process from others with the same pid, see `process.identity_of`."""
    digest: str = ""
    """Digest of the process's program, its files and its content."""
    generation: int = 0
    """Generation of the newest order."""
    runs: int = 0
    """The generation of the order for which the process was started."""
    started_at: str = ""
    state: WorkerState = WorkerState.STARTING
    restarts: int = 0
    exit_code: int | None = None
    reason: str = ""
    message: str = ""


class AgentStore:
    """What an agent stores, for one thread of one process.

    Attributes:
        was_damaged: the file could not be read and was moved aside; its contents are lost.
        reports: to the web.
        sinks: what waits for those to which this node delivers itself.
    """

    def __init__(self, file: Path, node: str) -> None:
        self.node = node
        self._database = AgentDatabase(file)
        self._db = self._database.connection
        self.was_damaged = self._database.was_damaged
        self.reports = ReportStore(self._database)
        self.sinks = SinkQueue(self._database)

    def close(self) -> None:
        self._database.close()

    def setting(self, name: str) -> str:
        """Returns a setting; empty if it was never set."""
        return self._database.setting(name)

    def remember(self, name: str, value: str) -> None:
        with self._db:
            self._database.put_setting(name, value)

    # orders
    def put(self, order: Order) -> bool:
        """Store an order, unless a newer one of the same key is stored. A deletion succeeds on a full disk, too.

        Args:
            order: with seq 0 it is not from the web: it is stored if its content differs, under the stored seq.

        Returns:
            Whether anything but the number has changed.
        """
        current = self.order(order.key)
        if current is None:
            if order.operation is Operation.DELETE:
                return False
        elif order.seq == 0:
            if _build_content(current) == _build_content(order):
                return False
        elif order.seq <= current.seq:
            return False
        seq = order.seq or (current.seq if current else 0)
        self._database.write(lambda: self._put(order, seq), makes_room=order.operation is Operation.DELETE)
        return current is None or _build_content(current) != _build_content(order)

    def _put(self, order: Order, seq: int) -> None:
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO orders VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    *_build_key(order.key),
                    seq,
                    order.namespace,
                    order.name,
                    order.operation.value,
                    order.generation,
                    json.dumps(dict(order.content)),
                ),
            )

    def order(self, key: WorkKey) -> Order | None:
        return next(iter(self._select_orders(f"WHERE {_OF_KEY}", _build_key(key))), None)

    def orders(self) -> list[Order]:
        """Returns all orders by seq, including deletions that are not yet carried out."""
        return self._select_orders("ORDER BY seq", ())

    def forget(self, order: Order) -> None:
        """Remove a deleted order and its worker, unless a newer order has arrived."""
        with self._db:
            deleted = self._db.execute(
                f"DELETE FROM orders WHERE {_OF_KEY} AND seq <= ? AND operation = 'delete'",  # noqa: S608  # the condition is a constant
                (*_build_key(order.key), order.seq),
            )
            if deleted.rowcount:
                self._db.execute(f"DELETE FROM workers WHERE {_OF_KEY}", _build_key(order.key))  # noqa: S608  # the condition is a constant
        self._database.fill_reserve()

    def _select_orders(self, where: str, values: Iterable[Any]) -> list[Order]:
        rows = self._db.execute(
            f"SELECT kind, uid, part, seq, namespace, name, operation, generation, content FROM orders {where}",  # noqa: S608  # the callers' are constants
            tuple(values),
        )
        return [
            Order(
                seq=seq,
                node=self.node,
                key=WorkKey(kind, uid, part),
                namespace=namespace,
                name=name,
                operation=Operation(operation),
                generation=generation,
                content=json.loads(content),
                is_acknowledged=True,
            )
            for kind, uid, part, seq, namespace, name, operation, generation, content in rows
        ]

    # workers
    def worker(self, key: WorkKey) -> WorkerRecord:
        """Returns what is stored about a worker; an empty record for an unknown one."""
        row = self._db.execute(f"SELECT kept FROM workers WHERE {_OF_KEY}", _build_key(key)).fetchone()  # noqa: S608  # see forget
        if row is None:
            return WorkerRecord()
        data = json.loads(row[0])
        return WorkerRecord(**{**data, "state": WorkerState(data["state"])})

    def save_worker(self, key: WorkKey, worker: WorkerRecord) -> None:
        with self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO workers VALUES (?, ?, ?, ?)", (*_build_key(key), json.dumps(asdict(worker)))
            )

    def ports(self) -> set[int]:
        """Returns all ports that belong to a worker."""
        return {int(json.loads(row[0])["port"]) for row in self._db.execute("SELECT kept FROM workers")}


def _build_key(key: WorkKey) -> tuple[str, str, str]:
    return key.kind, key.uid, key.part


def _build_content(order: Order) -> tuple[Any, ...]:
    return order.operation is Operation.DELETE, order.generation, order.namespace, order.name, dict(order.content)
