"""The declaration of the capability conversion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from app.kit.capability import Capability, WebPart
from app.kit.web.navigation import Area, NavigationEntry

if TYPE_CHECKING:
    import redis
    import typer
    from prometheus_client.registry import Collector

    from app.kit.queue.blocking_broker import BlockingBroker


class _Container(Protocol):
    @property
    def look(self) -> redis.Redis: ...
    @property
    def look_at_queues(self) -> redis.Redis: ...
    @property
    def broker(self) -> BlockingBroker: ...


def _declare_web() -> WebPart:
    from app.conversion.actions_api import OPERATIONS as ACTIONS
    from app.conversion.api import OPERATIONS
    from app.conversion.archive_api import OPERATIONS as ARCHIVE
    from app.conversion.pages import ROUTES
    from app.conversion.results_api import OPERATIONS as RESULTS
    from app.conversion.upload_api import OPERATIONS as UPLOADS

    return WebPart(operations=[*OPERATIONS, *UPLOADS, *ACTIONS, *RESULTS, *ARCHIVE], pages=ROUTES)


def _commands(root: typer.Typer) -> None:
    from app.conversion.cli import register

    register(root)


def _make_collectors(container: _Container, viewers: Callable[[], int]) -> Sequence[Collector]:
    from app.conversion.metrics.collector import ConversionCollector

    list_key = container.broker.list_key
    return [ConversionCollector(container.look, container.look_at_queues, list_key=list_key, viewers=viewers)]


CONVERSION = Capability(
    "conversion",
    web=_declare_web,
    commands=_commands,
    actors=("actors.conversion", "actors.scheduler", "actors.periodic"),
    collectors=_make_collectors,
    navigation=(
        NavigationEntry(Area.CONVERSION, 10, "Jobs", "/ui/jobs", "jobs", count_url="/ui/jobs/running"),
        NavigationEntry(Area.CONVERSION, 20, "New conversion", "/ui/jobs/new", "new"),
        NavigationEntry(Area.CONVERSION, 30, "Compare", "/ui/jobs/compare", "compare"),
        NavigationEntry(Area.CONVERSION, 50, "Archive", "/ui/archive", "archive"),
        NavigationEntry(Area.CONVERSION, 60, "Stored results", "/ui/results"),
        NavigationEntry(Area.WORKSPACE, 20, "System", "/ui/system", "system"),
    ),
    tables=("app.conversion.archive_index",),
    migrations=Path(__file__).parent / "migrations",
)
