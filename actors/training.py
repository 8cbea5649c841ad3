"""Actors of training. Each may run twice: of two scheduling processes, one leads."""

from __future__ import annotations

import logging
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import dramatiq
import redis
from periodiq import cron

from actors.process import actor, container
from app.kit.cli.command import CannotStart
from app.kit.clock import now
from app.kit.queue.messages import Message, Queue, post

if TYPE_CHECKING:
    from app.training.service.leader import TrainingLeader

logger = logging.getLogger(__name__)


# Without a cluster nobody takes from the queue. Not notified of a shutdown: it sees that by itself, between two steps.
@actor(
    Message.SCHEDULE,
    notify_shutdown=False,
    **({"periodic": cron("* * * * *")} if container.settings.ray_address else {}),
)
def schedule() -> None:
    """Lead for the rest of this minute, unless another does."""
    try:
        leader().lead()
    except CannotStart as error:
        logger.error("Nobody schedules training: %s %s", error, error.hint)


@actor(Message.CONVERT_RESULTS)
def convert_results(task_id: str) -> None:
    """Send to conversion what a task left, as its spec asks. It copies and checks: its queue is its own."""
    container.training.results.convert_results(task_id, now=now())


@actor(Message.LOOK_FOR_RESULTS, periodic=cron("* * * * *"))
def look_for_results() -> None:
    """Of tasks whose message was lost, or whose conversion could not be submitted when it came."""
    if container.training.options.is_on:
        for task_id in container.training.results.due(now=now()):
            post(container.broker, Message.CONVERT_RESULTS, task_id=task_id)


@lru_cache(maxsize=1)
def leader() -> TrainingLeader:
    """Made when it is first needed: the other workers need neither SQL, nor Ray, nor the time to import them."""
    from app.bootstrap.events import task_succeeded
    from app.bootstrap.training import open_scheduler
    from app.training.service.leader import TrainingLeader

    settings = container.settings
    scheduler = open_scheduler(
        settings,
        container.database,
        container.homes,
        container.redis,
        partial(task_succeeded, container.waker),
        container.accounts.users.enabled_of,
    )
    return TrainingLeader(
        container.redis,
        scheduler,
        tick_s=settings.training_tick_s,
        is_ending=lambda: container.broker.is_draining,
    )


class FirstPulse(dramatiq.Middleware):
    """A worker that has just started schedules at once, and not only from the next minute on."""

    def after_worker_boot(self, broker: Any, worker: dramatiq.Worker) -> None:
        if not container.settings.ray_address or Queue.TRAINING not in (worker.consumer_whitelist or {Queue.TRAINING}):
            return
        try:
            post(broker, Message.SCHEDULE)
        except redis.RedisError as error:
            logger.warning("Training is scheduled from the next pulse on: %s", error)


container.broker.add_middleware(FirstPulse())
