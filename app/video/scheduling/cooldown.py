"""What the profile policy does not try again for a while: plans that were late, nodes that did not answer, links that
fell. Each time it waits longer. Pure; kept between calls as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FIRST_WAIT_S, LONGEST_WAIT_S, GROWTH = 10.0, 120.0, 2.0
BARS_KEPT = 20
PROBE_FACTOR = 2.0
RISEN = 0.8
"""A link that gives this share of what it gave before has not fallen."""


class Cooldown:
    """bars: key of a plan or `node <name>` → [until, how long]. fallen: node → {was: Mbit/s, next: when it is tried,
    wait: how long after that}. Times before which the clock was begun anew count no more."""

    def __init__(self, state: dict[str, Any], now: float) -> None:
        kept = state.setdefault("patience", {})
        self.now = now
        self.bars: dict[str, list[float]] = kept.setdefault("bars", {})
        self.fallen: dict[str, dict[str, float]] = kept.setdefault("fallen", {})
        for key, (until, wait) in list(self.bars.items()):
            if until > now + wait:
                del self.bars[key]
        for fallen in self.fallen.values():
            fallen["next"] = min(fallen["next"], now + LONGEST_WAIT_S)

    def bar(self, key: str) -> None:
        wait = min(LONGEST_WAIT_S, self.bars[key][1] * GROWTH) if key in self.bars else FIRST_WAIT_S
        self.bars[key] = [self.now + wait, wait]
        for old in sorted(self.bars, key=lambda name: self.bars[name][0])[:-BARS_KEPT]:
            del self.bars[old]

    def is_barred(self, key: str) -> bool:
        return key in self.bars and self.now < self.bars[key][0]

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(
            key.removeprefix("node ") for key in self.bars if key.startswith("node ") and self.is_barred(key)
        )

    def fell(self, node: str, was: float) -> None:
        """was: Mbit/s."""
        before = self.fallen.get(node)
        wait = min(LONGEST_WAIT_S, before["wait"] * GROWTH) if before else FIRST_WAIT_S
        self.fallen[node] = {
            "was": max(was, before["was"]) if before else was,
            "wait": wait,
            "next": self.now + wait,
        }

    def forgive(self, links: Mapping[str, Mapping[str, Any]]) -> None:
        for node, fallen in list(self.fallen.items()):
            if links[node]["mbps"] >= RISEN * fallen["was"]:
                del self.fallen[node]

    def due(self, links: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
        """node → Mbit/s that may be tried now; the next time is later."""
        found = {}
        for node, fallen in self.fallen.items():
            if self.now >= fallen["next"]:
                fallen["next"] = self.now + fallen["wait"]
                fallen["wait"] = min(LONGEST_WAIT_S, fallen["wait"] * GROWTH)
                found[node] = min(fallen["was"], PROBE_FACTOR * links[node]["mbps"])
        return found
