"""How a capability declares itself: what it gives the web, the menu, the command line, the workers, the database and
the metrics.

Each has one such declaration, in its `capability.py`; `app.bootstrap.capabilities` lists them. A declaration imports
nothing of its capability before it is called: a command must not wait for the pages' libraries.
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
    operations: Sequence[Operation] = ()
    """Endpoints that stand in the OpenAPI document."""
    pages: Sequence[BaseRoute] = ()
    routes: Sequence[BaseRoute] = ()
    """Other endpoints: sockets, and what has a document of its own."""
    error_forms: Mapping[Paths, ErrorForm] = field(default_factory=dict)
    """Where errors are answered in a form that is none of ours."""


def web_part(api: str, pages: str) -> Callable[[], WebPart]:
    """The web part of a capability that has no more than these two, imported when it is called for.

    Args:
        api: the module whose OPERATIONS are its API.
        pages: the module whose ROUTES are its pages.
    """
    return lambda: WebPart(operations=import_module(api).OPERATIONS, pages=import_module(pages).ROUTES)


def command_group(name: str, module: str) -> Callable[[typer.Typer], None]:
    """The commands of a capability below one name, imported when they are called for.

    Args:
        name: of the group, as in `modelmill NAME`.
        module: which has them as `commands`.
    """
    return lambda root: root.add_typer(import_module(module).commands, name=name)


@dataclass(frozen=True)
class Capability:
    name: str
    web: Callable[[], WebPart] = WebPart
    commands: Callable[[typer.Typer], None] = lambda _: None
    """Adds them to the `modelmill` command."""
    actors: tuple[str, ...] = ()
    """Modules that declare actors."""
    navigation: tuple[NavigationEntry, ...] = ()
    """Its entries of the menu, and pages that one can jump to."""
    tables: tuple[str, ...] = ()
    """Modules that declare tables of the SQL database."""
    migrations: Path | None = None
    """Folder of the database's versions that concern it alone. All capabilities' versions are one line: a new one
    follows the newest of the installation, whoever's that is."""
    collectors: Callable[[Any, Callable[[], int]], Sequence[Collector]] = lambda _container, _viewers: ()
    """Find out at each scrape what is to be known of it. They get the container, of which each names in a Protocol what
    it needs, and what counts this process's open event streams."""
