"""The shared context of all steps of a tick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.homes.service import Homes
from app.kit.access import EnabledOf
from app.kit.clock import from_text, to_text
from app.kit.redis.leader import Watch
from app.kit.sql import Database
from app.training.gateway import Gateway, RayJob
from app.training.model import Attempt, Claim, Held, State, Task
from app.training.model.clock_steps import ClockSteps
from app.training.service.environments import Environments
from app.training.service.options import TrainingOptions
from app.training.service.scheduling.attempt_files import LogCopies
from app.training.service.scheduling.secrets import Secrets

OnSuccess = Callable[[Task], None]


@dataclass(frozen=True)
class SchedulerContext:
    """The collaborators of every step of the scheduler."""

    options: TrainingOptions
    database: Database
    homes: Homes
    gateway: Gateway
    copies: LogCopies
    on_success: OnSuccess
    """Called for each task that has succeeded and requests a conversion; it must not raise."""
    enabled_of: EnabledOf
    """Those of these users whose tasks may start."""
    environments: Environments
    secrets: Secrets
    cluster: str = ""
    """Which one the gateway leads to; "" is the default one."""


@dataclass(frozen=True)
class TickContext:
    """The tick that is in progress."""

    now: datetime
    answering_since: datetime
    """Since when Ray has answered every tick; long ago, if no silence is known."""
    watch: Watch
    """Renews the lease of the leader; raises Superseded if another leads."""

    steps: ClockSteps = field(default_factory=ClockSteps)
    """Of the clock by which `now` is."""

    @property
    def at(self) -> str:
        return to_text(self.now)

    def elapsed(self, since: str | datetime) -> timedelta:
        """How long ago something was, although the clock may have been set since."""
        return self.steps.elapsed(from_text(since) if isinstance(since, str) else since, self.now)


@dataclass(frozen=True)
class Allocation:
    """An active task as just read, and what it has of the cluster."""

    task: Task
    attempt: Attempt
    job: RayJob | None = None
    """None: Ray has only just received it."""
    claim: Claim = field(default_factory=Claim)
    """Empty until the task runs."""

    @property
    def held(self) -> Held:
        return Held(self.task.task_id, self.task.demand, self.claim, self.task.user)

    @property
    def is_running(self) -> bool:
        return self.task.state is State.RUNNING
