"""What the profile policy avoids for a while: plans that were late, nodes that did not answer, links that became
slower. The delay grows each time. Pure; stored between calls as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.kit.backoff import GrowingPause

PAUSE = GrowingPause(10.0, 120.0)
BARS_KEPT = 20
PROBE_FACTOR = 2.0
"""Factor on the current bandwidth at which a slowed link is tried again."""
RISEN = 0.8
"""A link with this share of its former bandwidth counts as recovered."""


class Cooldown:
    """Pauses, all times in seconds.

    Args:
        state: The policy's state: `patience` in it is read and changed in place.
        now: Of a steady clock. Entries from before that clock restarted are dropped.
    """

    def __init__(self, state: dict[str, Any], now: float) -> None:
        stored = state.setdefault("patience", {})
        self.now = now
        self.bars: dict[str, list[float]] = stored.setdefault("bars", {})
        """Key of a plan or `node <name>` → [end of the pause, its length]."""
        self.fallen: dict[str, dict[str, float]] = stored.setdefault("fallen", {})
        """node → {was: Mbit/s before it slowed down, next: when it is tried, wait: the pause after that}."""
        for key, (until, wait) in list(self.bars.items()):
            if until > now + wait:
                del self.bars[key]
        for fallen in self.fallen.values():
            fallen["next"] = min(fallen["next"], now + PAUSE.longest_s)

    def bar(self, key: str) -> None:
        """Bars a plan or a node, each time for longer."""
        wait = PAUSE.after(self.bars[key][1] if key in self.bars else 0.0)
        self.bars[key] = [self.now + wait, wait]
        for old in sorted(self.bars, key=lambda name: self.bars[name][0])[:-BARS_KEPT]:
            del self.bars[old]

    def is_barred(self, key: str) -> bool:
        return key in self.bars and self.now < self.bars[key][0]

    @property
    def nodes(self) -> frozenset[str]:
        """Names of the currently barred nodes."""
        return frozenset(
            key.removeprefix("node ") for key in self.bars if key.startswith("node ") and self.is_barred(key)
        )

    def fell(self, node: str, was: float) -> None:
        """Records that the link to a node slowed down.

        Args:
            was: Mbit/s before.
        """
        before = self.fallen.get(node)
        wait = PAUSE.after(before["wait"] if before else 0.0)
        self.fallen[node] = {
            "was": max(was, before["was"]) if before else was,
            "wait": wait,
            "next": self.now + wait,
        }

    def forgive(self, links: Mapping[str, Mapping[str, Any]]) -> None:
        """Drops the links that have recovered.

        Args:
            links: see PlanMemory.links.
        """
        for node, fallen in list(self.fallen.items()):
            if links[node]["mbps"] >= RISEN * fallen["was"]:
                del self.fallen[node]

    def due(self, links: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
        """node → Mbit/s to try now; the next attempt is postponed."""
        due = {}
        for node, fallen in self.fallen.items():
            if self.now >= fallen["next"]:
                fallen["next"] = self.now + fallen["wait"]
                fallen["wait"] = PAUSE.after(fallen["wait"])
                due[node] = min(fallen["was"], PROBE_FACTOR * links[node]["mbps"])
        return due
