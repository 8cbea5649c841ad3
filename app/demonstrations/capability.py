"""What demonstrations are to the product."""

from __future__ import annotations

from app.kit.capability import Capability, WebPart
from app.kit.web.navigation import Area, NavigationEntry, where_there_is


def _web() -> WebPart:
    from app.demonstrations.api import OPERATIONS
    from app.demonstrations.pages import ROUTES

    return WebPart(operations=OPERATIONS, pages=ROUTES)


DEMONSTRATIONS = Capability(
    "demonstrations",
    web=_web,
    navigation=(
        NavigationEntry(
            Area.EDGE,
            90,
            "Demonstrations",
            "/ui/demonstrations",
            "demonstrations",
            condition=where_there_is("demonstrations"),
        ),
    ),
)
