"""The scheduler: what its leader does every few seconds. Nothing else talks to Ray, or writes attempts."""

from app.kit.redis.leader import Watch
from app.training.service.scheduling.attempt_files import LogCopies
from app.training.service.scheduling.context import OnSuccess, SchedulerContext
from app.training.service.scheduling.tick import Scheduler
