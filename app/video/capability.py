"""The declaration of the capability video."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from app.kit.capability import Capability, WebPart, command_group
from app.kit.web.navigation import Area, NavigationEntry

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from app.kit.sql import Database


class _Container(Protocol):
    @property
    def database(self) -> Database: ...


def _declare_web() -> WebPart:
    from app.video.api import OPERATIONS
    from app.video.compat.api import OPERATIONS as COMPATIBLE
    from app.video.compat.api import PATHS
    from app.video.errors import as_refusal
    from app.video.pages import ROUTES

    return WebPart(operations=[*OPERATIONS, *COMPATIBLE], pages=ROUTES, error_forms={PATHS: as_refusal})


def _make_collectors(container: _Container, _: Callable[[], int]) -> Sequence[Collector]:
    from app.video.metrics import VideoCollector

    return [VideoCollector(container.database)]


VIDEO = Capability(
    "video",
    web=_declare_web,
    commands=command_group("video", "app.video.cli"),
    actors=("actors.video",),
    collectors=_make_collectors,
    navigation=(
        NavigationEntry(Area.EDGE, 20, "Video", "/ui/video", "video", is_searched=True),
        NavigationEntry(Area.EDGE, 60, "New video job", "/ui/video/new"),
    ),
    tables=("app.video.store.tables",),
    migrations=Path(__file__).parent / "migrations",
)
