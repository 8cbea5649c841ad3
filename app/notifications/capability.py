"""The declaration of the capability notifications."""

from __future__ import annotations

from pathlib import Path

from app.kit.capability import Capability, command_group, web_part

NOTIFICATIONS = Capability(
    "notifications",
    web=web_part("app.notifications.api", "app.notifications.pages"),
    commands=command_group("notifications", "app.notifications.cli"),
    actors=("actors.notifications",),
    tables=("app.notifications.store.tables",),
    migrations=Path(__file__).parent / "migrations",
)
