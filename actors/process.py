"""The process that runs actors: its container and broker, its life, and how an actor is declared.

A stage has its own time limit, which can stop a C call; Dramatiq's could not, and is omitted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import dramatiq
from dramatiq.middleware import Retries, ShutdownNotifications
from periodiq import PeriodiqMiddleware

from actors.observability import ObservabilityMiddleware
from actors.shutdown_grace import ShutdownGrace
from actors.worker_life import WorkerLife
from app.bootstrap.container import assemble
from app.kit.observability import logs, tracing
from app.kit.queue.inline_worker import InlineWork
from app.kit.queue.messages import BaseMessage
from app.settings import load_settings

SKIP_DELAY_S = 2 * 3600  # a pulse is not skipped because its sender's clock is an hour behind ours, or was
P = ParamSpec("P")
R = TypeVar("R")

settings = load_settings()
logs.configure(settings.log_format, settings.log_level)  # Dramatiq and Periodiq have set up their own before
tracing.configure("worker")
container = assemble(
    settings,
    middleware=[
        Retries(max_retries=0),
        ShutdownGrace(settings.shutdown_grace_s),
        ShutdownNotifications(notify_shutdown=True),
        InlineWork(),
        PeriodiqMiddleware(skip_delay=SKIP_DELAY_S),
    ],
)
life = WorkerLife(container)
container.broker.add_middleware(life)
container.broker.add_middleware(ObservabilityMiddleware(container.exporter, life.name), before=Retries)
dramatiq.set_broker(container.broker)


def actor(message: BaseMessage, **options: Any) -> Callable[[Callable[P, R]], dramatiq.Actor[P, R]]:
    """Declares what runs a message. It is never tried again by Dramatiq: each capability looks for what was lost.

    Args:
        message: which one; the table of messages knows its queue.
        options: Dramatiq's and Periodiq's.
    """
    return dramatiq.actor(actor_name=message.value, queue_name=message.queue.value, max_retries=0, **options)
