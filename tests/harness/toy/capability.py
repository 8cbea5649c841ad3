"""What toys are to the product: all that the product has to be told."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer
from prometheus_client.registry import Collector

from app.kit.capability import Capability, WebPart
from app.kit.web.navigation import Area, NavigationEntry
from tests.harness.toy import MIGRATIONS


def _web() -> WebPart:
    from tests.harness.toy.web import OPERATIONS, PAGES

    return WebPart(operations=OPERATIONS, pages=PAGES)


def _commands(root: typer.Typer) -> None:
    root.command("toys")(lambda: typer.echo("toys are counted"))


def _collectors(container: Any, _: Callable[[], int]) -> Sequence[Collector]:
    from tests.harness.toy.web import ToyCollector

    return [ToyCollector(container.database)]


TOY = Capability(
    "toy",
    web=_web,
    commands=_commands,
    actors=("tests.harness.toy.actors",),
    collectors=_collectors,
    navigation=(NavigationEntry(Area.EDGE, 100, "Toys", "/ui/toys", "toys"),),
    tables=("tests.harness.toy.store",),
    migrations=Path(os.environ[MIGRATIONS]),
)
