"""The declaration of the capability sweeps."""

from __future__ import annotations

from app.kit.capability import Capability, command_group, web_part
from app.kit.web.navigation import Area, NavigationEntry

SWEEPS = Capability(
    "sweeps",
    web=web_part("app.sweeps.api", "app.sweeps.pages"),
    commands=command_group("sweeps", "app.sweeps.cli"),
    actors=("actors.sweeps",),
    navigation=(NavigationEntry(Area.CONVERSION, 40, "Sweeps", "/ui/sweeps", "sweeps"),),
    tables=("app.sweeps.store",),
)
