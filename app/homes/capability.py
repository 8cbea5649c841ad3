"""The declaration of the capability data homes."""

from __future__ import annotations

from pathlib import Path

from app.kit.capability import Capability, web_part
from app.kit.web.navigation import Area, NavigationEntry

HOMES = Capability(
    "homes",
    web=web_part("app.homes.api", "app.homes.pages"),
    actors=("actors.homes",),
    navigation=(NavigationEntry(Area.WORKSPACE, 10, "Data", "/ui/data", "data"),),
    tables=("app.homes.store.tables", "app.kit.sql.lease"),
    migrations=Path(__file__).parent / "migrations",
)
