"""What the cluster has, and what is free after all promises have been met.

**Free on a node**: the minimum of what Ray reports as free and of the total minus what our tasks claim there. The first
respects outsiders, and counts a claimed GPU once. The second matters in the last second of a job, when its GPUs are
already returned: its task still holds them.

**Promised**: the demand of an active task minus what it has claimed. The rest of a partly claimed slot is reserved on
that node; a slot not yet claimed is put where Ray would put it now, which is the node that keeps the
greatest share of what it has free (LeastResourceScorer of Ray's strict packing, checked with Ray 2.60). If it fits
nowhere, an outsider was faster: a node then goes into debt, so that no other task takes what is freed next. A driver
has its CPUs before its program claims anything, so from the first claim on Ray reports them as taken.

**Custom resources** of a slot (a GPU type, or what an operator gave to some nodes) are counted the same way: what Ray
reports as free, less what slots take that are not claimed yet.

**In total**, whatever Ray reports and wherever claims are, the demands of active tasks never exceed what the nodes
have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import repeat

from app.training.model.demand import Claim, Held, Need, grains


@dataclass(frozen=True)
class Node:
    """A live node of the cluster."""

    node_id: str
    address: str
    total_gpus: float
    free_gpus: float
    total_cpus: float
    free_cpus: float
    may_train: bool = True
    """It has the resource that training requires."""
    resources: Mapping[str, float] = field(default_factory=dict)
    """Custom ones in all, by Ray's name."""
    free_resources: Mapping[str, float] = field(default_factory=dict)

    @property
    def accelerators(self) -> list[str]:
        """Types of its GPUs, as Ray names them: A100."""
        return sorted(name.removeprefix(ACCELERATOR) for name in self.resources if name.startswith(ACCELERATOR))


ACCELERATOR = "accelerator_type:"
"""What Ray's resource of a type of GPU begins with. A node has 1 of it, however many GPUs."""
ANY_OF_TYPE = 0.001
"""What a slot takes of it: a node never runs out."""
Claims = dict[int, tuple[int, int]]
"""On which node (by position) a task has how many GPUs and CPUs."""


class Capacity:
    """Free GPUs and CPUs by node, in the order of node ids. Negative: a debt.

    Args:
        held: what is in use; None: the nodes are empty.
    """

    def __init__(self, nodes: Iterable[Node], held: Sequence[Held] | None = None) -> None:
        self.nodes = sorted(nodes, key=lambda node: node.node_id)
        self.may_train = [node.may_train for node in self.nodes]
        self.trains = [at for at, may_train in enumerate(self.may_train) if may_train]
        self.gpus = [grains(node.total_gpus) for node in self.nodes]
        self.cpus = [grains(node.total_cpus) for node in self.nodes]
        self.left_gpus, self.left_cpus = sum(self.gpus[at] for at in self.trains), sum(self.cpus)
        names = {name for node in self.nodes for name in node.resources}
        self.others = {name: [grains(node.resources.get(name, 0)) for node in self.nodes] for name in names}
        """Custom resources, by name and then by node."""
        if held is not None:
            self._hold(held)

    def place(self, need: Need) -> int | None:
        """Returns where its driver would run so that all its slots fit as well; None: it does not fit.

        Exact: its slots are identical, so they fit if the nodes together have enough places.
        """
        if need.all_gpus > self.left_gpus or need.all_cpus > self.left_cpus:
            return None
        places = self.places(need)
        spare = sum(places) - need.slots
        if spare < 0:
            return None
        if not need.driver:
            return self.trains[0]
        after = self.places(need, less_cpus=need.driver)
        possible = [at for at, free in enumerate(self.cpus) if free >= need.driver and places[at] - after[at] <= spare]
        return max(possible, key=lambda at: (after[at] - places[at], *self._suits_driver(at)), default=None)

    def take(self, need: Need, driver_at: int) -> None:
        """The placement of a demand."""
        self.left_gpus -= need.all_gpus
        self.left_cpus -= need.all_cpus
        self.cpus[driver_at] -= need.driver
        for _ in range(need.slots):
            self._take_slot(need)

    def has_places(self, need: Need) -> bool:
        """For all its slots, ignoring its driver and what active tasks may still claim."""
        return sum(self.places(need)) >= need.slots

    def suits(self, at: int, need: Need) -> bool:
        """Does a node have the custom resources of a slot, were it empty?"""
        return all(grains(self.nodes[at].resources.get(name, 0)) >= amount for name, amount in need.resources)

    def restricted(self, need: Need) -> Capacity:
        """The same room, with slots on those nodes alone that suit."""
        if not need.resources:
            return self
        room = copy(self)
        room.may_train = [may and self.suits(at, need) for at, may in enumerate(self.may_train)]
        room.trains = [at for at in self.trains if room.may_train[at]]
        room.left_gpus = min(self.left_gpus, sum(max(0, self.gpus[at]) for at in room.trains))
        return room

    def free_gpus(self) -> int:
        return max(0, min(self.left_gpus, sum(max(0, self.gpus[at]) for at in self.trains)))

    def free_cpus(self, need: Need) -> int:
        """Where its slots find GPUs; its driver may run elsewhere."""
        if not self.trains:
            return 0
        candidates = [at for at in self.trains if self.gpus[at] >= need.gpus]
        if need.driver:
            candidates += [at for at, node in enumerate(self.nodes) if not node.may_train]
        return max(0, min(self.left_cpus, sum(max(0, self.cpus[at]) for at in candidates)))

    # --- what other tasks have, and what they were promised ---
    def _hold(self, held: Sequence[Held]) -> None:
        where = {node.node_id: at for at, node in enumerate(self.nodes)}
        claimed = [_on_nodes(holder.claim, where) for holder in held]
        for at, (gpus, cpus) in (claim for claims in claimed for claim in claims.items()):
            self.gpus[at] -= gpus
            self.cpus[at] -= cpus
        for at, node in enumerate(self.nodes):
            self.gpus[at] = min(self.gpus[at], grains(node.free_gpus))
            self.cpus[at] = min(self.cpus[at], grains(node.free_cpus))
            for name, amounts in self.others.items():
                amounts[at] = grains(node.free_resources.get(name, 0))
        promised = [
            self._compute_promise(Need.of(holder.demand), claims) for holder, claims in zip(held, claimed, strict=True)
        ]
        for need in promised:
            self._take_driver(need)
            for _ in range(need.slots):
                self._take_slot(need)

    def _compute_promise(self, need: Need, claims: Claims) -> Need:
        """What it has yet to claim. The rest of partly claimed slots is reserved at once."""
        self.left_gpus -= need.all_gpus
        self.left_cpus -= need.all_cpus
        slots = need.slots
        for at, (gpus, cpus) in claims.items():
            begun = min(slots, _count_begun(need, gpus, cpus))
            self.gpus[at] -= max(0, begun * need.gpus - gpus)
            self.cpus[at] -= max(0, begun * need.cpus - cpus)
            slots -= begun
        return Need(slots, need.gpus, need.cpus, 0 if claims else need.driver, need.resources)

    def _take_driver(self, need: Need) -> None:
        if need.driver and self.nodes:
            at = max(range(len(self.nodes)), key=lambda at: (self.cpus[at] >= need.driver, *self._suits_driver(at)))
            self.cpus[at] -= need.driver

    def _suits_driver(self, at: int) -> tuple[bool, int]:
        """Ray keeps work without GPUs away from nodes that have some."""
        return self.nodes[at].total_gpus == 0, self.cpus[at]

    # --- one slot -----------------------------------------------------------------------------------------
    def places(self, need: Need, *, less_cpus: int = 0) -> list[int]:
        """How many of its slots each node could take, at most its number."""
        by_gpus = [free // need.gpus for free in self.gpus] if need.gpus else repeat(need.slots)
        by_cpus = [(free - less_cpus) // need.cpus for free in self.cpus] if need.cpus else repeat(need.slots)
        room = zip(self.may_train, by_gpus, by_cpus, strict=False)
        places = [max(0, min(gpus, cpus, need.slots)) if may_train else 0 for may_train, gpus, cpus in room]
        for name, amount in need.resources:
            free = self.others.get(name, [0] * len(places))
            places = [max(0, min(count, free[at] // amount)) for at, count in enumerate(places)]
        return places

    def _take_slot(self, need: Need) -> None:
        if not self.trains:
            return
        at = self._find_best(need)
        self.gpus[at] -= need.gpus
        self.cpus[at] -= need.cpus
        for name, amount in need.resources:
            if name in self.others:
                self.others[name][at] -= amount

    def _lacks(self, at: int, need: Need) -> bool:
        return any(name not in self.others or self.others[name][at] < amount for name, amount in need.resources)

    def _find_best(self, need: Need) -> int:
        """The node that keeps the greatest share of its free GPUs and CPUs."""
        best, best_share = -1, -1.0
        for at in self.trains:
            gpus, cpus = self.gpus[at], self.cpus[at]
            if (need.gpus and gpus < need.gpus) or (need.cpus and cpus < need.cpus):
                continue
            if need.resources and self._lacks(at, need):
                continue
            share = (gpus - need.gpus) / gpus if need.gpus else 0.0
            share += (cpus - need.cpus) / cpus if need.cpus else 0.0
            if share > best_share:
                best, best_share = at, share
        return best if best >= 0 else self._find_debtor(need)

    def _find_debtor(self, need: Need) -> int:
        """The node that is closest to having room, among those that are large enough at all."""

        def shortage(at: int) -> tuple[bool, bool, int, int]:
            node = self.nodes[at]
            is_small = grains(node.total_gpus) < need.gpus or grains(node.total_cpus) < need.cpus
            return not self.suits(at, need), is_small, need.gpus - self.gpus[at], need.cpus - self.cpus[at]

        return min(self.trains, key=shortage)


def slots_on(held: Held) -> dict[str, int]:
    """How many of its slots are begun on each node, by node id."""
    need, claim = Need.of(held.demand), held.claim
    begun = {
        node_id: _count_begun(need, grains(claim.gpus.get(node_id, 0)), grains(claim.cpus.get(node_id, 0)))
        for node_id in {*claim.gpus, *claim.cpus}
    }
    return {node_id: slots for node_id, slots in begun.items() if slots}


def _count_begun(need: Need, gpus: int, cpus: int) -> int:
    """How many slots so much of a node is, in whole or in part."""
    return -(-gpus // need.gpus) if need.gpus else -(-cpus // need.cpus) if need.cpus else 0


def _on_nodes(claim: Claim, where: dict[str, int]) -> Claims:
    """Only live nodes count: Ray replaces what a task had on a lost one elsewhere or not at all."""
    ids = sorted({*claim.gpus, *claim.cpus} & where.keys())
    amounts = ((node_id, grains(claim.gpus.get(node_id, 0)), grains(claim.cpus.get(node_id, 0))) for node_id in ids)
    return {where[node_id]: (gpus, cpus) for node_id, gpus, cpus in amounts if gpus > 0 or cpus > 0}
