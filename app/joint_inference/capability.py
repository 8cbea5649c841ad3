"""The declaration of the capability joint inference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from app.kit.capability import Capability, WebPart, command_group
from app.kit.web.navigation import Area, NavigationEntry

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from app.kit.sql import Database
    from app.nodes.service import Nodes


class _Container(Protocol):
    @property
    def database(self) -> Database: ...
    @property
    def nodes(self) -> Nodes: ...


def _declare_web() -> WebPart:
    from app.joint_inference.api import OPERATIONS
    from app.joint_inference.calibrations_api import OPERATIONS as CALIBRATIONS
    from app.joint_inference.drift_api import OPERATIONS as DRIFT
    from app.joint_inference.kubernetes import ROUTES as KUBERNETES
    from app.joint_inference.pages import ROUTES

    return WebPart(operations=[*OPERATIONS, *CALIBRATIONS, *DRIFT], pages=ROUTES, routes=KUBERNETES)


def _make_collectors(container: _Container, _: Callable[[], int]) -> Sequence[Collector]:
    from app.joint_inference.metrics import JointCollector

    return [JointCollector(container.database, container.nodes)]


JOINT_INFERENCE = Capability(
    "joint inference",
    web=_declare_web,
    commands=command_group("joint", "app.joint_inference.cli"),
    actors=("actors.joint_inference", "actors.calibration"),
    collectors=_make_collectors,
    navigation=(
        NavigationEntry(Area.EDGE, 10, "Services", "/ui/services", "services", is_searched=True),
        NavigationEntry(Area.EDGE, 50, "New service", "/ui/services/new"),
    ),
    tables=("app.joint_inference.store.tables",),
    migrations=Path(__file__).parent / "migrations",
)
