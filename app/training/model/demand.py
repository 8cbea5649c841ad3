"""What a task needs all at once, what the cluster has, and what of it is taken."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Demand:
    """`nodes` slots of so many GPUs and CPUs, each slot whole on one node, and the CPUs of the driver anywhere.

    claims_by_group: the program claims its slots with placement groups, some time after it starts (verl does); else
    Ray gives them to the driver before it starts.
    """

    nodes: int
    gpus_per_node: int
    cpus_per_node: float
    driver_cpus: float = 0
    claims_by_group: bool = True

    @property
    def gpus(self) -> int:
        return self.nodes * self.gpus_per_node

    @property
    def cpus(self) -> float:
        return self.nodes * self.cpus_per_node + self.driver_cpus


@dataclass(frozen=True)
class Node:
    """A living node of the cluster. may_train: has the resource that training asks for."""

    node_id: str
    address: str
    total_gpus: float
    free_gpus: float
    total_cpus: float
    free_cpus: float
    may_train: bool = True


@dataclass(frozen=True)
class Claim:
    """What an active task has claimed already, by node. Empty: nothing that Ray has given it yet."""

    gpus: dict[str, float] = field(default_factory=dict)
    cpus: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Held:
    """What an active task may take at any moment, and what of it it has."""

    task_id: str
    demand: Demand
    claim: Claim = Claim()
