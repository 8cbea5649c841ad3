"""Which nodes serve stages now, and how they are: from what nodes report. Pure but for asking for it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from app.nodes.model import Node
from app.video.model.job import StageHost
from app.video.model.plan import Role
from app.video.service import Catalogue, Resources
from app.video.service.resources import host_of

ORDER = (Role.CLOUD.value, Role.EDGE.value, Role.HOST.value)


@dataclass(frozen=True)
class Serving:
    """detail: what the host of stages says of itself: {n_process, cpu_ratio, mem_ratio, queue, stages, way}. known:
    stages that the user may use."""

    host: StageHost
    node: Node
    detail: Mapping[str, Any]
    known: Collection[str]

    @property
    def stages(self) -> list[str]:
        """Of the catalogue; those of jobs are nobody else's."""
        found = self.detail.get("stages")
        return sorted(name for name in found if name in self.known) if isinstance(found, Mapping) else []

    @property
    def queue(self) -> float:
        return _number(self.detail.get("queue"))

    def service(self) -> dict[str, Any]:
        """As the requirement has it of each service: {n_process, cpu_ratio, mem_ratio}."""
        return {
            "n_process": int(_number(self.detail.get("n_process"))),
            "cpu_ratio": _number(self.detail.get("cpu_ratio")),
            "mem_ratio": _number(self.detail.get("mem_ratio")),
        }


def serving_now(resources: Resources, catalogue: Catalogue, user: str, now: datetime) -> list[Serving]:
    """Those that this user may use; of the cloud first, then those with the least waiting."""
    stages = catalogue.names_seen_by(user)
    known = {node.name: node for node in resources.nodes.seen_by(user)}
    found = [
        Serving(host, node, worker.detail, stages)
        for host in resources.hosts_among(known.values(), "", now)
        if (node := known[host.node]) and (worker := host_of(node, now))
    ]
    return sorted(found, key=lambda one: (_place(one.host.role), one.queue, one.host.node))


def keys_of(found: Sequence[Serving]) -> dict[str, str]:
    """node → node_ip; of nodes that share an address, the name."""
    addresses = [one.host.ip for one in found]
    return {one.host.node: one.host.ip if addresses.count(one.host.ip) == 1 else one.host.node for one in found}


def _place(role: str) -> int:
    return ORDER.index(role) if role in ORDER else len(ORDER)


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
