"""What the profile policy avoids for a while: models that were too much for their nodes, nodes that did not answer or
were late again and again, links that became slower. The delay grows each time. Pure; stored between calls as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypedDict

from app.kit.backoff import GrowingPause
from app.video.scheduling.contract import PolicyState

PAUSE = GrowingPause(10.0, 120.0)
OVERLOAD_PAUSE = GrowingPause(60.0, 960.0)
"""Longer: it ends early when the nodes have less to do."""
LIGHTER = 0.85
"""A plan with at most this share of a load that was too much is another one."""
FREED = 0.25
"""Of a node's processor: if others use so much less of it, a load that was too much may fit."""
MOST_KEPT = 20
NODE = "node "
"""Begins the stored keys of nodes."""
PROBE_FACTOR = 2.0
"""Factor on the current bandwidth at which a slowed link is tried again, and on that, up to its former one."""
MOMENT_S = 4.0
"""Late frames within so many seconds have one cause."""
MOMENTS_S = 60.0
"""For so long late frames are remembered."""
RISEN = 0.8
"""A link with this share of its former bandwidth counts as recovered."""


class Overload(TypedDict):
    """Models that were too much for their nodes."""

    load: float
    """The least load that was too much, in any unit."""
    until: float
    wait: float
    """The length of the pause, in seconds."""
    others: dict[str, float]
    """Node → the share of its processor that others used, 0..1."""


class FallenLink(TypedDict):
    """A link that became slower."""

    was: float
    """Mbit/s before."""
    next: float
    """When it is tried again."""
    wait: float
    """Seconds from that attempt to the one after it."""


class Backoffs:
    """Nodes, models on nodes and links, each with the pause for which it is avoided. All times are in seconds.

    Args:
        state: The policy's state: `patience` in it is read and changed in place.
        now: Of a steady clock. Entries from before that clock restarted are dropped.
    """

    def __init__(self, state: PolicyState, now: float) -> None:
        stored = state.setdefault("patience", {})
        self.now = now
        self.node_pauses: dict[str, list[float]] = stored.setdefault("bars", {})
        """`node <name>` → [end of the pause, its length]. Stored states may have keys of former versions."""
        self.overloads: dict[str, Overload] = stored.setdefault("overloads", {})
        """By models and their nodes."""
        self.fallen: dict[str, FallenLink] = stored.setdefault("fallen", {})
        """By node."""
        self.moments: list[list[float]] = stored.setdefault("moments", [])
        """Of the nodes in use: [begin, end, seconds of the video that were late]."""
        self.moments[:] = [moment for moment in self.moments if now - MOMENTS_S <= moment[0] <= now]
        for key, (until, wait) in list(self.node_pauses.items()):
            if until > now + wait:
                del self.node_pauses[key]
        for key, overload in list(self.overloads.items()):
            if overload["until"] > now + overload["wait"]:
                del self.overloads[key]
        for fallen in self.fallen.values():
            fallen["next"] = min(fallen["next"], now + PAUSE.longest_s)

    def note_late(self, late_s: float) -> None:
        """Records late frames.

        Args:
            late_s: the seconds of the video that they stand for. Of a source of next to no frames a second that is
                more than has passed: no more than the time that is looked back on counts.
        """
        late_s = min(late_s, MOMENTS_S)
        if self.moments and self.now - self.moments[-1][1] < MOMENT_S:
            begin, _, sum_s = self.moments[-1]
            self.moments[-1] = [begin, self.now, sum_s + late_s]
        else:
            self.moments.append([self.now, self.now, late_s])

    @property
    def late_s(self) -> float:
        """Seconds of the video of the last minute that were late at several moments; 0 if there was only one."""
        return sum(moment[2] for moment in self.moments) if len(self.moments) > 1 else 0.0

    def bar_node(self, node: str, least_s: float = 0.0) -> None:
        """Bars a node, each time for longer."""
        key = f"{NODE}{node}"
        wait = max(least_s, PAUSE.after(self.node_pauses[key][1] if key in self.node_pauses else 0.0))
        self.node_pauses[key] = [self.now + wait, wait]
        for old in sorted(self.node_pauses, key=lambda name: self.node_pauses[name][0])[:-MOST_KEPT]:
            del self.node_pauses[old]

    @property
    def barred_nodes(self) -> frozenset[str]:
        """Names of the currently barred nodes."""
        return frozenset(
            key.removeprefix(NODE)
            for key, (until, _) in self.node_pauses.items()
            if key.startswith(NODE) and self.now < until
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
        for old in sorted(self.overloads, key=lambda name: self.overloads[name]["until"])[:-MOST_KEPT]:
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

    def note_slow_link(self, node: str, was: float) -> None:
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

    def forgive_links(self, links: Mapping[str, Mapping[str, Any]]) -> None:
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
