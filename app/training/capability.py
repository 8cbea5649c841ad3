"""What training is to the product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from app.kit.capability import Capability, WebPart

if TYPE_CHECKING:
    import redis
    import typer
    from prometheus_client.registry import Collector

    from app.kit.sql import Database
    from app.training.service import Training


class _Container(Protocol):
    @property
    def look(self) -> redis.Redis: ...
    @property
    def database(self) -> Database: ...
    @property
    def training(self) -> Training: ...


def _web() -> WebPart:
    from app.training.api import OPERATIONS
    from app.training.pages import ROUTES

    return WebPart(operations=OPERATIONS, pages=ROUTES)


def _commands(root: typer.Typer) -> None:
    from app.training.cli import commands

    root.add_typer(commands, name="train")


def _collectors(container: _Container, _: Callable[[], int]) -> Sequence[Collector]:
    from app.training.metrics.collector import TrainingCollector
    from app.training.service import ClusterPicture

    if not container.training.options.is_on:
        return []
    return [TrainingCollector(container.database, ClusterPicture(container.look))]


TRAINING = Capability("training", web=_web, commands=_commands, actors=("training",), collectors=_collectors)
