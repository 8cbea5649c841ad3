"""The scheduler: what its leader does every few seconds. Nobody else talks to Ray, or writes of attempts."""

from app.kit.redis.leader import Watch
from app.training.service.scheduling.attempt_files import LogCopies
from app.training.service.scheduling.context import OnSuccess, SchedulerContext
from app.training.service.scheduling.tick import Scheduler
