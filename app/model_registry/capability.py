"""The declaration of the capability model registry."""

from __future__ import annotations

from pathlib import Path

from app.kit.capability import Capability, command_group, web_part
from app.kit.web.navigation import Area, NavigationEntry

MODEL_REGISTRY = Capability(
    "model registry",
    web=web_part("app.model_registry.api", "app.model_registry.pages"),
    commands=command_group("models", "app.model_registry.cli"),
    navigation=(
        NavigationEntry(Area.EDGE, 30, "Models", "/ui/models", "models", is_searched=True),
        NavigationEntry(Area.EDGE, 70, "New model", "/ui/models/new"),
    ),
    tables=("app.model_registry.store",),
    migrations=Path(__file__).parent / "migrations",
)
