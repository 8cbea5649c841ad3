"""What a task needs at once, and what an active task has claimed of it.

Amounts are counted in ten-thousandths, as Ray counts them: sums are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Demand:
    """`nodes` slots of so many GPUs and CPUs, each slot whole on one node, and the CPUs of the driver anywhere."""

    nodes: int
    gpus_per_node: int
    cpus_per_node: float
    driver_cpus: float = 0
    claims_by_group: bool = True
    """The program claims its slots with placement groups, some time after it starts, as verl does; otherwise Ray gives
    them to the driver before it starts."""
    resources: tuple[tuple[str, float], ...] = ()
    """Custom resources of each slot, by Ray's name, sorted: what only some nodes have, such as a GPU type."""

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def cpus(self) -> float:
        return self.nodes * self.cpus_per_node + self.driver_cpus


@dataclass(frozen=True)
class Claim:
    """What an active task has already claimed. Empty: Ray has not allocated anything yet."""

    gpus: dict[str, float] = field(default_factory=dict)
    """By node id."""
    cpus: dict[str, float] = field(default_factory=dict)
    """By node id."""


@dataclass(frozen=True)
class Held:
    """What an active task may claim at any moment."""

    task_id: str
    demand: Demand
    claim: Claim = Claim()
    """The part of its demand that it already has."""
    user: str = ""


GRAIN = 10_000


def grains(amount: float) -> int:
    return round(amount * GRAIN)


def plain(amount: int) -> float:
    """In decimal notation: 8, 7.5."""
    return amount // GRAIN if amount % GRAIN == 0 else amount / GRAIN


@dataclass(frozen=True)
class Need:
    """A demand in grains."""

    slots: int
    """How many, all identical."""
    gpus: int
    """Of each slot."""
    cpus: int
    """Of each slot."""
    driver: int
    """CPUs of the driver."""
    resources: tuple[tuple[str, int], ...] = ()
    """Of each slot."""

    @classmethod
    def of(cls, demand: Demand) -> Need:
        each = grains(demand.gpus_per_node), grains(demand.cpus_per_node)
        resources = tuple((name, grains(amount)) for name, amount in demand.resources)
        return cls(demand.nodes, *each, grains(demand.driver_cpus), resources)

    @property
    def all_gpus(self) -> int:
        return self.slots * self.gpus

    @property
    def all_cpus(self) -> int:
        return self.slots * self.cpus + self.driver
