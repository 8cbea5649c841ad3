"""Lets the thread that waits for messages do the work itself, where each queue has a worker thread to itself anyway.

Dramatiq hands each message from a consumer's thread to a worker's thread and back. For messages that take milliseconds
that is a good part of the time. The work is done by Dramatiq's own code all the same, so middleware sees no difference.
"""

from __future__ import annotations

from queue import PriorityQueue
from typing import Any

from dramatiq import Broker, MessageProxy, Middleware, Worker
from dramatiq.worker import WorkerThread


class InlineWork(Middleware):
    def before_worker_boot(self, broker: Any, worker: Worker) -> None:
        queues = worker.consumer_whitelist or broker.get_declared_queues()
        if len(queues) <= worker.worker_threads:
            broker.work_inline = Inline(broker, worker)


class Inline:
    """Processes a message in the thread that calls."""

    def __init__(self, broker: Broker, worker: Worker) -> None:
        self._broker = broker
        self._thread = WorkerThread(  # never started: only its way with a message is wanted
            broker=broker, consumers=worker.consumers, work_queue=_Uncounted(), worker_timeout=worker.worker_timeout
        )

    def takes(self, message: MessageProxy) -> bool:
        """Not what is delayed, nor what no actor is known for: Dramatiq has its own ways with those."""
        return "eta" not in message.options and message.actor_name in self._broker.actors

    def process(self, message: MessageProxy) -> None:
        self._thread.process_message(message)


class _Uncounted(PriorityQueue[Any]):
    """Stands for the queue between the threads, through which these messages do not come."""

    def task_done(self) -> None:
        """Nothing was put here."""
