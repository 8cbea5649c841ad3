"""On which host each stage is called: the planned one, or the node's own while that is away."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.edge.circuit_breaker import CircuitBreaker
from app.video.model.job import StageHost
from app.video.model.plan import StagePlace

logger = logging.getLogger(__name__)
PROBE_S = 1.0
MOST_REST_S = 30.0
"""Maximum seconds in which a host that answers probes but fails repeatedly is not probed."""


@dataclass(frozen=True)
class StageRoute:
    """The host on which a stage is called."""

    host: StageHost
    is_planned: bool
    """Whether it is the planned host."""


def _make_breaker() -> CircuitBreaker:
    return CircuitBreaker(errors=2, pause_s=PROBE_S, growth=2, most_pause_s=MOST_REST_S)


class StageRouter:
    """Chooses the hosts of stages. Any number of threads may use it."""

    def __init__(
        self,
        node: str,
        hosts: Sequence[StageHost],
        is_there: Callable[[StageHost], bool],
        on_change: Callable[[str, bool], None] = lambda _node, _there: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            node: the job's own node.
            hosts: the hosts that the job may use.
            is_there: probes an unreachable host.
            on_change: called with a node and whether its host is reachable, when that changes.
            clock: monotonic seconds.
        """
        self.node = node
        self._hosts = {host.node: host for host in hosts}
        self._is_there, self._on_change = is_there, on_change
        self._clock = clock
        self._away: set[str] = set()
        self._missed: set[str] = set()
        """Nodes whose host is reported as unreachable and not yet known at another address."""
        self._breakers: dict[str, CircuitBreaker] = {}
        """By node. A host that fails once is probed at once; one that fails again after a probe rests for a while."""
        self._lock = threading.Lock()

    @property
    def hosts(self) -> list[StageHost]:
        with self._lock:
            return list(self._hosts.values())

    @property
    def own(self) -> StageHost | None:
        return self._hosts.get(self.node)

    def is_local(self, host: StageHost) -> bool:
        return host.node == self.node

    def update(self, hosts: Sequence[StageHost]) -> None:
        """Replaces the hosts. A host at another address counts as reachable until it fails."""
        with self._lock:
            fresh = {host.node: host for host in hosts}
            same = {node for node, host in fresh.items() if host == self._hosts.get(node)}
            self._missed |= self._away - same
            self._away &= same
            back = self._missed & fresh.keys()
            self._missed -= back
            self._breakers = {node: breaker for node, breaker in self._breakers.items() if node in same}
            self._hosts = fresh
        for node in sorted(back):
            self._on_change(node, True)

    def route(self, place: StagePlace) -> StageRoute | None:
        """Returns where to call a stage; None: neither the planned host nor the node's own is known."""
        planned = self.planned(place)
        if planned is not None and (planned.node not in self._away or self.is_local(planned)):
            return StageRoute(planned, is_planned=True)
        return StageRoute(self.own, is_planned=False) if self.own is not None else None

    def planned(self, place: StagePlace) -> StageHost | None:
        with self._lock:
            if place.node:
                return self._hosts.get(place.node)
            return next((host for host in self._hosts.values() if host.ip == place.node_ip), None)

    def failed(self, host: StageHost, why: str) -> None:
        """Ignores a host until it answers again. The node's own host is always tried, because there is no other."""
        with self._lock:
            if self.is_local(host) or host.node in self._away or self._hosts.get(host.node) != host:
                return
            self._away.add(host.node)
            self._breakers.setdefault(host.node, _make_breaker()).failed(self._clock())
        logger.warning("The stages of %s are away, and run here meanwhile: %s", host.node, why)
        self._on_change(host.node, False)

    def went_well(self, host: StageHost) -> None:
        self._breakers.pop(host.node, None)

    @property
    def away(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._away)

    def probe(self) -> None:
        """Probes the unreachable hosts. Call it every PROBE_S."""
        for node in self.away:
            host, breaker = self._hosts.get(node), self._breakers.get(node)
            is_open = breaker is not None and breaker.left_s(self._clock()) > 0
            if host is None or is_open or not self._is_there(host):
                continue
            with self._lock:
                self._away.discard(node)
            logger.info("The stages of %s are back", node)
            self._on_change(node, True)
