"""The declaration of the capability results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from app.kit.capability import Capability

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from app.kit.sql import Database


class _Container(Protocol):
    @property
    def database(self) -> Database: ...


def _make_collectors(container: _Container, _: Callable[[], int]) -> Sequence[Collector]:
    from app.results.metrics import SinkCollector

    return [SinkCollector(container.database)]


RESULTS = Capability(
    "results", actors=("actors.results",), collectors=_make_collectors, tables=("app.results.store.tables",)
)
