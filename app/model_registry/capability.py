"""What the model registry is to the product."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.kit.capability import Capability, WebPart
from app.kit.web.navigation import Area, NavigationEntry

if TYPE_CHECKING:
    import typer


def _web() -> WebPart:
    from app.model_registry.api import OPERATIONS
    from app.model_registry.pages import ROUTES

    return WebPart(operations=OPERATIONS, pages=ROUTES)


def _commands(root: typer.Typer) -> None:
    from app.model_registry.cli import commands

    root.add_typer(commands, name="models")


MODEL_REGISTRY = Capability(
    "model registry",
    web=_web,
    commands=_commands,
    navigation=(
        NavigationEntry(Area.EDGE, 30, "Models", "/ui/models", "models", is_searched=True),
        NavigationEntry(Area.EDGE, 70, "New model", "/ui/models/new"),
    ),
    tables=("app.model_registry.store",),
)
