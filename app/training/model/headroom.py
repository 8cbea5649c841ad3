"""What later tasks may take while one waits for room, so that it starts when it would have started without them. Pure.

A later task takes nothing of it if, on every node on which Ray could ever put it,

- the waiting task could never have a slot, or needs neither the GPUs nor the custom resources that the later one
  takes; and
- the CPUs suffice for both, whichever of the running tasks end first. A node that may come to have k slots of the
  waiting task keeps k times their CPUs, beside the CPUs of everything that can still run there then.

What runs and has not claimed its slots yet counts as a later task: it is not known where they will be. If it takes
something of the waiting task, nothing else may start, for its place could depend on that. Programs of others are taken
to stay.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from app.training.model.capacity import Capacity, Node, slots_on
from app.training.model.demand import Demand, Held, Need, grains

MOST_DEMANDS = 16
"""Behind tasks of more different demands nobody looks for what they leave."""
Items = Sequence[tuple[int, int]]
"""GPUs and CPUs of each slot that a node has."""


@dataclass(frozen=True)
class _Stay:
    """What runs on a node."""

    slots: Items
    cpus: int
    """Of drivers, and of programs of others."""

    def most_cpus(self, gpus: int) -> int:
        """How many CPUs may be in use there while no more than so many GPUs are."""
        best = {0: self.cpus}
        for slot_gpus, slot_cpus in self.slots:
            for used, cpus in list(best.items()):
                if used + slot_gpus <= gpus:
                    best[used + slot_gpus] = max(best.get(used + slot_gpus, 0), cpus + slot_cpus)
        return max(best.values())


class Headroom:
    """Of one waiting task.

    Args:
        need: What it waits for.
        nodes: Of the cluster, with what Ray reports as free on each.
        held: Every active task, also what is admitted at the same time.
    """

    def __init__(self, need: Need, nodes: Sequence[Node], held: Sequence[Held]) -> None:
        self._need = need
        self._empty = Capacity(nodes)
        self._most = self._empty.places(need)
        """How many slots of it each node could ever have."""
        claimed, unclaimed = _by_claim(held, {node.node_id for node in nodes})
        self._spare = self._count_spare_cpus([_make_stay(node, claimed[node.node_id]) for node in self._empty.nodes])
        self._is_settled = self._spare is not None
        for other in unclaimed:
            self._is_settled = self._is_settled and self._is_untouched_by(other)
            self.take(other)

    def admits(self, need: Need) -> bool:
        """Whether a task takes nothing of the waiting one, wherever it is put and however long it runs."""
        return self._is_settled and self._is_untouched_by(need)

    def take(self, need: Need) -> None:
        """A task has started."""
        for at, cpus in self._find_reach(need).items():
            if self._spare is not None and at in self._spare:
                self._spare[at] -= cpus

    def _is_untouched_by(self, other: Need) -> bool:
        names = {name for name, _ in self._need.resources} & {name for name, _ in other.resources}
        if names or (self._need.gpus and other.gpus):
            slots = zip(self._most, self._empty.places(other), strict=True)
            if any(own and others for own, others in slots):  # a node could have a slot of either
                return False
        spare = self._spare or {}
        return all(cpus <= spare.get(at, cpus) for at, cpus in self._find_reach(other).items())

    def _find_reach(self, other: Need) -> dict[int, int]:
        """The nodes on which it could be, and how many CPUs it would have there at most."""
        most = self._empty.places(other)
        reach = {at: slots * other.cpus + other.driver for at, slots in enumerate(most) if slots}
        if other.driver:
            drivers = (at for at, cpus in enumerate(self._empty.cpus) if cpus >= other.driver)
            reach = {**dict.fromkeys(drivers, other.driver), **reach}
        return reach

    def _count_spare_cpus(self, stays: Sequence[_Stay]) -> dict[int, int] | None:
        """Of each node that needs to keep some: how many more may be taken.

        One node, the one with the most to spare, keeps the CPUs of the waiting task's driver, so that no other need.
        None: no node can.
        """
        need, empty, least = self._need, self._empty, _count_least_slots(self._need, self._most)
        with_driver: dict[int, int] = {}
        spare: dict[int, int] = {}
        for at, stay in enumerate(stays):
            left = {
                slots: empty.cpus[at] - slots * need.cpus - stay.most_cpus(empty.gpus[at] - slots * need.gpus)
                for slots in range(least[at], self._most[at] + 1)
            }
            with_driver[at] = min(left.values()) - need.driver
            with_slots = [cpus for slots, cpus in left.items() if slots]
            spare.update({at: min(with_slots)} if with_slots else {})
        if not need.driver:
            return spare
        home = max(with_driver, key=with_driver.__getitem__, default=None)
        if home is None or with_driver[home] < 0:
            return None
        return {**spare, home: with_driver[home]}


def _count_least_slots(need: Need, most: Sequence[int]) -> list[int]:
    """How many each node has at least, because the others could not have more; 0 where they are too few in all."""
    spare = sum(most) - need.slots
    return [max(0, count - spare) if spare >= 0 else 0 for count in most]


def _by_claim(held: Sequence[Held], node_ids: set[str]) -> tuple[dict[str, list[tuple[int, int]]], list[Need]]:
    """The slots that are begun, by node, and what has yet to be claimed."""
    claimed: dict[str, list[tuple[int, int]]] = defaultdict(list)
    unclaimed = []
    for holder in held:
        need, slots = Need.of(holder.demand), holder.demand.nodes
        begun = {node_id: count for node_id, count in slots_on(holder).items() if node_id in node_ids}
        for node_id, count in begun.items():
            claimed[node_id] += [(need.gpus, need.cpus)] * count
            slots -= count
        if slots > 0 or not begun:
            unclaimed.append(Need(max(0, slots), need.gpus, need.cpus, 0 if begun else need.driver, need.resources))
    return claimed, unclaimed


def _make_stay(node: Node, slots: Items) -> _Stay:
    """What is neither free nor of a slot has drivers, or is of others."""
    used = grains(node.total_cpus) - grains(node.free_cpus)
    return _Stay(slots, max(0, used - sum(cpus for _, cpus in slots)))


class Waiter(Protocol):
    @property
    def task_id(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def environment(self) -> str: ...
    @property
    def demand(self) -> Demand: ...


class Line:
    """Tasks that wait, the first of them for room. Later ones start if they take nothing of any of them.

    Args:
        nodes: Of the cluster.
        held: As of Headroom.
        limits_users: Whether the GPUs of each user are limited.
        limited_environments: Those whose GPUs are.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        held: Sequence[Held],
        *,
        limits_users: bool = False,
        limited_environments: Collection[str] = (),
    ) -> None:
        self._nodes = nodes
        self._held = list(held)
        self._limits_users = limits_users
        self._limited_environments = limited_environments
        self._rooms: dict[Demand, Headroom | None] = {}
        """By what is waited for; computed when it is needed."""
        self._refused: set[Demand] = set()
        """Demands that take something of what waits: what is left only shrinks."""
        self._limits: set[tuple[str, str]] = set()
        """Limits under which those that wait are to start."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, waiter: Waiter) -> None:
        self._count += 1
        if len(self._rooms) <= MOST_DEMANDS:
            self._rooms.setdefault(waiter.demand)
            self._limits.update(self._limits_of(waiter))

    def lets_pass(self, task: Waiter) -> bool:
        if task.demand in self._refused or len(self._rooms) > MOST_DEMANDS:
            return False
        if not all(self._measure_room(demand).admits(Need.of(task.demand)) for demand in self._rooms):
            self._refused.add(task.demand)
            return False
        return not any(limit in self._limits for limit in self._limits_of(task))

    def take(self, task: Waiter) -> None:
        """It has started."""
        self._held.append(Held(task.task_id, task.demand))
        for room in self._rooms.values():
            if room is not None:
                room.take(Need.of(task.demand))

    def _measure_room(self, demand: Demand) -> Headroom:
        room = self._rooms[demand]
        if room is None:
            room = self._rooms[demand] = Headroom(Need.of(demand), self._nodes, self._held)
        return room

    def _limits_of(self, task: Waiter) -> Iterator[tuple[str, str]]:
        """Those that its GPUs count for."""
        if task.demand.gpus and self._limits_users:
            yield "user", task.user
        if task.demand.gpus and task.environment in self._limited_environments:
            yield "environment", task.environment
