"""Logs, metrics and traces of a process that runs actors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import dramatiq

from app.kit.observability import logs, metrics, tracing
from app.kit.observability.metrics import MetricsExporter
from app.kit.observability.trace_propagation import carrier_of


class ObservabilityMiddleware(dramatiq.Middleware):
    """Must stand first in the broker's list, so that what the others say of a message is said in its context.

    worker: name of this process for a queue; None when it has none there.
    """

    def __init__(self, exporter: MetricsExporter, worker: Callable[[str], str | None]) -> None:
        self.exporter = exporter
        self.worker = worker
        self._message = threading.local()

    def before_worker_boot(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        self.exporter.start()

    def after_worker_shutdown(self, broker: dramatiq.Broker, worker: dramatiq.Worker) -> None:
        self.exporter.stop()
        tracing.flush()

    def before_process_message(self, broker: dramatiq.Broker, message: dramatiq.MessageProxy) -> None:
        queue, job_id = message.queue_name, message.kwargs.get("job_id")
        stage = message.kwargs.get("step") or (queue if message.actor_name == f"run_{queue}" else None)
        fields = {"job_id": job_id, "stage": stage, "queue": queue, "worker": self.worker(queue)}
        self._message.trace = None
        if tracing.is_on():
            self._message.trace = _continue_trace(message, fields)
            fields["trace_id"] = tracing.trace_id()
        self._message.log = logs.enter(**fields)

    def after_process_message(
        self,
        broker: dramatiq.Broker,
        message: dramatiq.MessageProxy,
        *,
        result: Any = None,
        exception: BaseException | None = None,
    ) -> None:
        """See `dramatiq.Middleware`."""
        metrics.note()
        token, trace = getattr(self._message, "log", None), getattr(self._message, "trace", None)
        self._message.log = self._message.trace = None
        if token is not None:
            logs.leave(token)
        if trace is not None:
            trace.__exit__(type(exception) if exception else None, exception, None)

    def after_skip_message(self, broker: dramatiq.Broker, message: dramatiq.MessageProxy) -> None:
        self.after_process_message(broker, message)


def _continue_trace(message: dramatiq.MessageProxy, fields: dict[str, Any]) -> ExitStack | None:
    """The span of this message, entered, if its sender traces."""
    carrier = carrier_of(message)
    if not carrier:
        return None
    queue = message.queue_name
    tracing.past_span(f"wait {queue}", carrier, message.message_timestamp / 1000, time.time(), **fields)
    name = f"stage {queue}" if fields["stage"] == queue else message.actor_name
    context = ExitStack()
    context.enter_context(tracing.remote_span(name, carrier, kind="CONSUMER", **fields))
    return context
