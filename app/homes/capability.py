"""What data homes are to the product."""

from __future__ import annotations

from pathlib import Path

from app.kit.capability import Capability, WebPart
from app.kit.web.navigation import Area, NavigationEntry


def _web() -> WebPart:
    from app.homes.api import OPERATIONS
    from app.homes.pages import ROUTES

    return WebPart(operations=OPERATIONS, pages=ROUTES)


HOMES = Capability(
    "homes",
    web=_web,
    actors=("actors.homes",),
    navigation=(NavigationEntry(Area.WORKSPACE, 10, "Data", "/ui/data", "data"),),
    tables=("app.homes.store.tables", "app.kit.sql.lease"),
    migrations=Path(__file__).parent / "migrations",
)
