"""The declaration of the capability demonstrations."""

from __future__ import annotations

from app.kit.capability import Capability, web_part
from app.kit.web.navigation import Area, NavigationEntry, where_there_is

DEMONSTRATIONS = Capability(
    "demonstrations",
    web=web_part("app.demonstrations.api", "app.demonstrations.pages"),
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
