"""Where a stage is called: at the host that the plan names, or at the node's own while that one is away."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.video.model.job import StageHost
from app.video.model.plan import StagePlace

PROBE_S = 1.0
MOST_REST_S = 30.0
"""So long a host is not even asked that answers when it is asked, and then fails again and again."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Route:
    """is_planned: it is where the plan wants it."""

    host: StageHost
    is_planned: bool


@dataclass(frozen=True)
class _Rest:
    seconds: float
    until: float


class Routes:
    """node: the job's own. is_there: asked about hosts that are away, each second. on_change: called when one has gone
    or come back, with its node and whether it is there."""

    def __init__(
        self,
        node: str,
        hosts: Sequence[StageHost],
        is_there: Callable[[StageHost], bool],
        on_change: Callable[[str, bool], None] = lambda _node, _there: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.node = node
        self._hosts = {host.node: host for host in hosts}
        self._is_there, self._on_change = is_there, on_change
        self._clock = clock
        self._away: set[str] = set()
        self._missed: set[str] = set()
        """Said to be away, and not yet known at another address."""
        self._rests: dict[str, _Rest] = {}
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
        """A host at another address is not away until it is found so."""
        with self._lock:
            fresh = {host.node: host for host in hosts}
            same = {node for node, host in fresh.items() if host == self._hosts.get(node)}
            self._missed |= self._away - same
            self._away &= same
            back = self._missed & fresh.keys()
            self._missed -= back
            self._rests = {node: rest for node, rest in self._rests.items() if node in same}
            self._hosts = fresh
        for node in sorted(back):
            self._on_change(node, True)

    def route(self, place: StagePlace) -> Route | None:
        """None: neither the planned host nor the node's own is known."""
        planned = self.planned(place)
        if planned is not None and (planned.node not in self._away or self.is_local(planned)):
            return Route(planned, is_planned=True)
        return Route(self.own, is_planned=False) if self.own is not None else None

    def planned(self, place: StagePlace) -> StageHost | None:
        with self._lock:
            if place.node:
                return self._hosts.get(place.node)
            return next((host for host in self._hosts.values() if host.ip == place.node_ip), None)

    def failed(self, host: StageHost, why: str) -> None:
        """It is passed over until it answers again. The node's own is always tried: there is no other."""
        with self._lock:
            if self.is_local(host) or host.node in self._away or self._hosts.get(host.node) != host:
                return
            self._away.add(host.node)
            last = self._rests.get(host.node)
            seconds = 0.0 if last is None else min(MOST_REST_S, max(PROBE_S, 2 * last.seconds))
            self._rests[host.node] = _Rest(seconds, self._clock() + seconds)
        logger.warning("The stages of %s are away, and run here meanwhile: %s", host.node, why)
        self._on_change(host.node, False)

    def went_well(self, host: StageHost) -> None:
        self._rests.pop(host.node, None)

    @property
    def away(self) -> frozenset[str]:
        with self._lock:
            return frozenset(self._away)

    def probe(self) -> None:
        """Ask those that are away. To be called each second."""
        for node in self.away:
            host, rest = self._hosts.get(node), self._rests.get(node)
            is_resting = rest is not None and self._clock() < rest.until
            if host is None or is_resting or not self._is_there(host):
                continue
            with self._lock:
                self._away.discard(node)
            logger.info("The stages of %s are back", node)
            self._on_change(node, True)
