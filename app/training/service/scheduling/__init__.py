"""The scheduler: what its leader does every few seconds. Nobody else talks to Ray, or writes of attempts."""

from app.kit.leading import Superseded, Watch
from app.training.service.scheduling.desk import Desk, EnabledOf, OnSuccess
from app.training.service.scheduling.log_copy import LogCopies
from app.training.service.scheduling.tick import Scheduler

__all__ = ["Desk", "EnabledOf", "LogCopies", "OnSuccess", "Scheduler", "Superseded", "Watch"]
