"""Lets the thread that waits for messages do the work itself, if each queue has its own worker thread anyway.

Dramatiq passes each message from a consumer's thread to a worker's thread and back. For messages that take milliseconds
this is a large part of the time. Dramatiq's own code still does the work, so middleware sees no difference.
"""

from __future__ import annotations

from queue import PriorityQueue
from typing import Any

from dramatiq import Broker, MessageProxy, Middleware, Worker
from dramatiq.worker import WorkerThread

from app.kit.queue.messages import DELAYED


class InlineWork(Middleware):
    def before_worker_boot(self, broker: Any, worker: Worker) -> None:
        queues = worker.consumer_whitelist or broker.get_declared_queues()
        if len(queues) <= worker.worker_threads:
            broker.work_inline = Inline(broker, worker)


class Inline:
    """Processes a message in the calling thread."""

    def __init__(self, broker: Broker, worker: Worker) -> None:
        self._broker = broker
        self._thread = WorkerThread(  # never started: only its processing of a message is used
            broker=broker, consumers=worker.consumers, work_queue=_Uncounted(), worker_timeout=worker.worker_timeout
        )

    def takes(self, message: MessageProxy) -> bool:
        """Excludes delayed messages, those of unknown actors, and those that may take long and run several at once:
        Dramatiq handles these itself."""
        is_known = message.actor_name in self._broker.actors
        return is_known and "eta" not in message.options and message.queue_name not in DELAYED

    def process(self, message: MessageProxy) -> None:
        self._thread.process_message(message)


class _Uncounted(PriorityQueue[Any]):
    """Replaces the queue between the threads, which these messages do not pass."""

    def task_done(self) -> None:
        """Nothing was put here."""
