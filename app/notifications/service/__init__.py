"""The verbs of notifications."""

from __future__ import annotations

from dataclasses import dataclass

from app.notifications.service.outbox import Outbox
from app.notifications.service.targets import NewTarget, Targets


@dataclass(frozen=True)
class Notifications:
    targets: Targets
    outbox: Outbox
