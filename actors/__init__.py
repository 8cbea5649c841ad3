"""What Dramatiq runs: `dramatiq actors --queues bie --processes 1 --threads 1`. Thin: a decorator, then one call.

A stage has its own time limit, which can stop a C call; Dramatiq's could not, and is left out.
Importing this package sets the broker and declares every actor; which of them a process runs is the operator's
--queues.
"""

from __future__ import annotations

import dramatiq
from dramatiq.middleware import Retries, ShutdownNotifications
from periodiq import PeriodiqMiddleware

from actors.observing import Observing
from actors.shutdown_grace import ShutdownGrace
from actors.worker_life import WorkerLife
from app.bootstrap.container import assemble
from app.kit.observability import logs, tracing
from app.kit.queue.inline_worker import InlineWork
from app.settings import load_settings

SKIP_DELAY_S = 2 * 3600  # a pulse is not skipped because its sender's clock is an hour behind ours, or was

settings = load_settings()
logs.configure(settings.log_format, settings.log_level)  # Dramatiq and Periodiq have set up their own before
tracing.configure("worker")
parts = assemble(
    settings,
    middleware=[
        Retries(max_retries=0),
        ShutdownGrace(settings.shutdown_grace_s),
        ShutdownNotifications(notify_shutdown=True),
        InlineWork(),
        PeriodiqMiddleware(skip_delay=SKIP_DELAY_S),
    ],
)
life = WorkerLife(parts)
parts.broker.add_middleware(life)
parts.broker.add_middleware(Observing(parts.pump, life.name), before=Retries)
dramatiq.set_broker(parts.broker)

from actors import (  # noqa: E402  # they need the broker
    calibration,
    conversion,
    homes,
    joint_inference,
    nodes,
    periodic,
    scheduler,
    training,
)

__all__ = [
    "calibration",
    "conversion",
    "homes",
    "joint_inference",
    "life",
    "nodes",
    "parts",
    "periodic",
    "scheduler",
    "training",
]
