"""How a capability declares itself: what it contributes to the web application, the menu, the command line, the
workers, the database and the metrics.

Each has one such declaration, in its `capability.py`; `app.bootstrap.capabilities` lists them. A declaration imports
nothing from its capability until it is called: a command must not wait for the pages' libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.kit.web.navigation import NavigationEntry

if TYPE_CHECKING:
    import typer
    from prometheus_client.registry import Collector
    from starlette.routing import BaseRoute

    from app.kit.web.http import ErrorForm, Paths
    from app.kit.web.operations import Operation


@dataclass(frozen=True)
class WebPart:
    """What a capability contributes to the web application."""

    operations: Sequence[Operation] = ()
    """Endpoints in the OpenAPI document."""
    pages: Sequence[BaseRoute] = ()
    routes: Sequence[BaseRoute] = ()
    """Other endpoints: WebSockets, and those with their own document."""
    error_forms: Mapping[Paths, ErrorForm] = field(default_factory=dict)
    """Paths whose errors have another format than ours."""


def web_part(api: str, pages: str) -> Callable[[], WebPart]:
    """Returns the web part of a capability with only these two modules, imported when needed.

    Args:
        api: the module whose OPERATIONS are its API.
        pages: the module whose ROUTES are its pages.
    """
    return lambda: WebPart(operations=import_module(api).OPERATIONS, pages=import_module(pages).ROUTES)


def command_group(name: str, module: str) -> Callable[[typer.Typer], None]:
    """Returns the commands of a capability below one name, imported when needed.

    Args:
        name: the group, as in `modelmill NAME`.
        module: contains them as `commands`.
    """
    return lambda root: root.add_typer(import_module(module).commands, name=name)


@dataclass(frozen=True)
class Capability:
    """The declaration of one capability; only its name is required."""

    name: str
    web: Callable[[], WebPart] = WebPart
    commands: Callable[[typer.Typer], None] = lambda _: None
    """Adds the capability's commands to the `modelmill` command."""
    actors: tuple[str, ...] = ()
    """Modules that declare actors."""
    navigation: tuple[NavigationEntry, ...] = ()
    """Menu entries, and pages that the palette can jump to."""
    tables: tuple[str, ...] = ()
    """Modules that declare tables of the SQL database."""
    migrations: Path | None = None
    """Folder of the database migrations that concern only this capability. The migrations of all capabilities form one
    line: a new one follows the newest of the installation."""
    collectors: Callable[[Any, Callable[[], int]], Sequence[Collector]] = lambda _container, _viewers: ()
    """Collect metrics at each scrape. They receive the container (each declares what it needs in a Protocol) and the
    counter of this process's open event streams."""
