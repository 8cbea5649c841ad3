"""What Dramatiq runs: `dramatiq actors --queues bie --processes 1 --threads 1`. Thin: a decorator, then one call.

Importing this package sets the broker and declares every actor; which of them a process runs is the operator's
--queues.
"""

from __future__ import annotations

import dramatiq
from dramatiq.middleware import Retries, ShutdownNotifications, TimeLimit
from periodiq import PeriodiqMiddleware

from actors.worker_life import WorkerLife
from app.settings import load_settings
from app.wiring import assemble

FOR_EVER_MS = float("inf")

parts = assemble(
    load_settings(),
    middleware=[
        Retries(max_retries=0),
        TimeLimit(time_limit=FOR_EVER_MS),  # a stage has its own limit, which can stop a C call; this could not
        ShutdownNotifications(notify_shutdown=True),
        PeriodiqMiddleware(skip_delay=30),
    ],
)
life = WorkerLife(parts)
parts.broker.add_middleware(life)
dramatiq.set_broker(parts.broker)

from actors import conversion, periodic, scheduler  # noqa: E402  # they need the broker

__all__ = ["conversion", "life", "parts", "periodic", "scheduler"]
