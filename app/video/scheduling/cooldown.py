"""What the profile policy avoids for a while: models that were too much for their nodes, nodes that did not answer or
were late again and again, links that became slower. The delay grows each time. Pure; stored between calls as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from app.kit.backoff import GrowingPause

PAUSE = GrowingPause(10.0, 120.0)
OVERLOAD_PAUSE = GrowingPause(60.0, 960.0)
"""Longer: it ends early when the nodes have less to do."""
LIGHTER = 0.85
"""A plan with at most this share of a load that was too much is another one."""
FREED = 0.25
"""Of a node's processor: if others use so much less of it, a load that was too much may fit."""
BARS_KEPT = 20
PROBE_FACTOR = 2.0
"""Factor on the current bandwidth at which a slowed link is tried again, and on that, up to its former one."""
MOMENT_S = 4.0
"""Late frames within so many seconds have one cause."""
MOMENTS_S = 60.0
"""For so long late frames are remembered."""
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
        """`node <name>` → [end of the pause, its length]."""
        self.overloads: dict[str, dict[str, Any]] = stored.setdefault("overloads", {})
        """Models and their nodes → {load: that was too much, until, wait, others: node → the share of it that others
        used}."""
        self.fallen: dict[str, dict[str, float]] = stored.setdefault("fallen", {})
        """node → {was: Mbit/s before it slowed down, next: when it is tried, wait: the pause after that}."""
        self.moments: list[list[float]] = stored.setdefault("moments", [])
        """Of the nodes in use: [begin, end, seconds of the video that were late]."""
        self.moments[:] = [moment for moment in self.moments if now - MOMENTS_S <= moment[0] <= now]
        for key, (until, wait) in list(self.bars.items()):
            if until > now + wait:
                del self.bars[key]
        for key, overload in list(self.overloads.items()):
            if overload["until"] > now + overload["wait"]:
                del self.overloads[key]
        for fallen in self.fallen.values():
            fallen["next"] = min(fallen["next"], now + PAUSE.longest_s)

    def note_late(self, late_s: float) -> None:
        """Records late frames.

        Args:
            late_s: the seconds of the video that they stand for.
        """
        if self.moments and self.now - self.moments[-1][1] < MOMENT_S:
            begin, _, sum_s = self.moments[-1]
            self.moments[-1] = [begin, self.now, sum_s + late_s]
        else:
            self.moments.append([self.now, self.now, late_s])

    @property
    def late_s(self) -> float:
        """Seconds of the video of the last minute that were late at several moments; 0 if there was only one."""
        return sum(moment[2] for moment in self.moments) if len(self.moments) > 1 else 0.0

    def bar(self, node: str, least_s: float = 0.0) -> None:
        """Bars a node, each time for longer."""
        key = f"node {node}"
        wait = max(least_s, PAUSE.after(self.bars[key][1] if key in self.bars else 0.0))
        self.bars[key] = [self.now + wait, wait]
        for old in sorted(self.bars, key=lambda name: self.bars[name][0])[:-BARS_KEPT]:
            del self.bars[old]

    @property
    def nodes(self) -> frozenset[str]:
        """Names of the currently barred nodes."""
        return frozenset(
            key.removeprefix("node ")
            for key, (until, _) in self.bars.items()
            if key[:5] == "node " and self.now < until
        )

    def overload(self, key: str, load: float, others: Mapping[str, float]) -> None:
        """Bars models on nodes with this load or more, each time for longer. While they are barred it is the same time:
        a plan may have to go on, as there is none that is better.

        Args:
            key: the models and their nodes.
            load: that was too much, in any unit.
            others: of these nodes, see `overloads`.
        """
        wait, before = OVERLOAD_PAUSE.first_s, self.overloads.get(key)
        if before and self.now < before["until"]:
            wait, load = before["wait"], min(load, before["load"])
        elif before:
            wait = OVERLOAD_PAUSE.after(before["wait"])
        self.overloads[key] = {"load": load, "until": self.now + wait, "wait": wait, "others": dict(others)}
        for old in sorted(self.overloads, key=lambda name: self.overloads[name]["until"])[:-BARS_KEPT]:
            del self.overloads[old]

    def is_too_much(self, key: str, load: Callable[[], float]) -> bool:
        """Whether a plan is as heavy as one that was too much for the same nodes a short time ago.

        Args:
            key: its models and their nodes.
            load: computes its load, in the unit of `overload`.
        """
        overload = self.overloads.get(key)
        return overload is not None and self.now < overload["until"] and load() > LIGHTER * overload["load"]

    def forgive_overloads(self, others: Mapping[str, float]) -> None:
        """Drops what was too much for nodes of which others use less now.

        Args:
            others: node → the share of it that others use.
        """
        for key, overload in list(self.overloads.items()):
            if any(others.get(node, share) <= share - FREED for node, share in overload["others"].items()):
                del self.overloads[key]

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

    def due(self, links: Mapping[str, Mapping[str, Any]]) -> dict[str, list[float]]:
        """node → Mbit/s to try now, the first at which sending pays; the next attempt is postponed."""
        due = {}
        for node, fallen in self.fallen.items():
            if self.now >= fallen["next"]:
                fallen["next"] = self.now + fallen["wait"]
                fallen["wait"] = PAUSE.after(fallen["wait"])
                steps = [PROBE_FACTOR * links[node]["mbps"]]
                while steps[-1] < fallen["was"]:
                    steps.append(PROBE_FACTOR * steps[-1])
                due[node] = [min(fallen["was"], step) for step in steps]
        return due
