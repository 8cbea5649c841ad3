"""What training has done outside the web. Each may run twice: of two that schedule, one leads."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import dramatiq
import redis
from periodiq import cron

from actors import parts
from app.kit.cli.command import CannotStart
from app.kit.clock import now

if TYPE_CHECKING:
    from app.training.service.leader import Leader

QUEUE = "training"
logger = logging.getLogger(__name__)


# Without a cluster nobody takes from the queue. Not notified of a shutdown: it sees that by itself, between two steps.
@dramatiq.actor(
    queue_name=QUEUE,
    max_retries=0,
    notify_shutdown=False,
    **({"periodic": cron("* * * * *")} if parts.settings.ray_address else {}),
)
def schedule() -> None:
    """Lead for the rest of this minute, unless another does."""
    try:
        leader().lead()
    except CannotStart as error:
        logger.error("Nobody schedules training: %s %s", error, error.hint)


@dramatiq.actor(queue_name="training_results", max_retries=0)
def convert_results(task_id: str) -> None:
    """Send to conversion what a task left, as its spec asks. It copies and checks: its queue is its own."""
    parts.training.results.convert_results(task_id, now=now())


@dramatiq.actor(queue_name="periodic", max_retries=0, periodic=cron("* * * * *"))
def look_for_results() -> None:
    """Of tasks whose message was lost, or whose conversion could not be submitted when it came."""
    if parts.training.options.is_on:
        for task_id in parts.training.results.due(now=now()):
            convert_results.send(task_id=task_id)


@lru_cache(maxsize=1)
def leader() -> Leader:
    """Made when it is first needed: the other workers need neither SQL, nor Ray, nor the time to import them."""
    from app.bootstrap.training import open_scheduler
    from app.training.service.leader import Leader
    from app.training.service.wake_up import convert_by

    settings = parts.settings
    scheduler = open_scheduler(
        settings, parts.database, parts.homes, parts.redis, convert_by(parts.broker), parts.accounts.users.enabled_of
    )
    is_ending = lambda: parts.broker.is_draining  # noqa: E731
    return Leader(parts.redis, scheduler, tick_s=settings.training_tick_s, is_ending=is_ending)


class FirstPulse(dramatiq.Middleware):
    """A worker that has just started schedules at once, and not only from the next minute on."""

    def after_worker_boot(self, broker: Any, worker: Any) -> None:
        if not parts.settings.ray_address or QUEUE not in (worker.consumer_whitelist or {QUEUE}):
            return
        try:
            broker.enqueue(schedule.message())
        except redis.RedisError as error:
            logger.warning("Training is scheduled from the next pulse on: %s", error)


parts.broker.add_middleware(FirstPulse())
