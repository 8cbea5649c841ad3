"""The declaration of the capability training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from app.kit.capability import Capability, WebPart, command_group
from app.kit.web.navigation import Area, NavigationEntry, where_there_is

if TYPE_CHECKING:
    import redis
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


def _declare_web() -> WebPart:
    from app.training.api import OPERATIONS
    from app.training.environments_api import OPERATIONS as ENVIRONMENTS
    from app.training.pages import ROUTES
    from app.training.sweeps_api import OPERATIONS as SWEEPS

    return WebPart(operations=[*OPERATIONS, *SWEEPS, *ENVIRONMENTS], pages=ROUTES)


def _make_collectors(container: _Container, _: Callable[[], int]) -> Sequence[Collector]:
    from app.training.metrics.collector import TrainingCollector
    from app.training.service import ClusterPicture

    options = container.training.options
    if not options.is_on:
        return []
    picture = ClusterPicture(container.look, names=options.noted_clusters)
    return [TrainingCollector(container.database, picture, shown=options.shown if len(options.clusters) > 1 else None)]


def _tasks_are_shown(features: frozenset[str], is_admin: bool) -> bool:
    """Without a cluster, the page tells administrators how to add one."""
    return is_admin or "training" in features


def _administration_is_shown(features: frozenset[str], is_admin: bool) -> bool:
    return is_admin and "training" in features


TRAINING = Capability(
    "training",
    web=_declare_web,
    commands=command_group("train", "app.training.cli"),
    actors=("actors.training",),
    collectors=_make_collectors,
    navigation=(
        NavigationEntry(Area.TRAINING, 10, "Tasks", "/ui/tasks", "tasks", condition=_tasks_are_shown),
        NavigationEntry(
            Area.TRAINING, 20, "New task", "/ui/tasks/new", "new-task", condition=where_there_is("training")
        ),
        NavigationEntry(Area.TRAINING, 30, "Cluster", "/ui/cluster", "cluster", condition=where_there_is("training")),
        NavigationEntry(
            Area.TRAINING, 35, "All tasks", "/ui/admin/tasks", "all-tasks", condition=_administration_is_shown
        ),
        NavigationEntry(
            Area.TRAINING,
            40,
            "Environments",
            "/ui/admin/environments",
            "environments",
            condition=_administration_is_shown,
        ),
    ),
    tables=("app.training.store.tables",),
    migrations=Path(__file__).parent / "migrations",
)
