"""The reservation of the task at the head of the queue (EASY backfill): its latest start time. Pure.

It follows from the time limits of running tasks. A later task may go ahead if it ends before that time, or if it leaves
room for the head then; so nobody is delayed beyond the head's promised time.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from app.training.model.capacity import Capacity, Node, slots_on
from app.training.model.demand import Demand, Held, Need


@dataclass
class Reservation:
    """The promise to the head of the queue."""

    starts_by: datetime
    after: Held
    """Whose end it waits for: what that task holds is the last that is missing."""
    room: Capacity
    """What is free then, besides the head's own place."""

    def admits(self, demand: Demand, run_limit_s: int | None, now: datetime) -> bool:
        """Whether a later task that fits now may start. What it uses of the room at that time is subtracted."""
        if run_limit_s is not None and now + timedelta(seconds=run_limit_s) <= self.starts_by:
            return True
        need = Need.of(demand)
        driver_at = self.room.place(need)
        if driver_at is None:
            return False
        self.room.take(need, driver_at)
        return True


def reserve(
    demand: Demand, held: Sequence[Held], nodes: Sequence[Node], ends: Mapping[str, datetime]
) -> Reservation | None:
    """Returns the earliest time at which the demand fits, given that running tasks end at their limits at the latest.

    Args:
        ends: when each active task ends at the latest, by its id; one without a limit is not in it.

    Returns:
        None: it is unknown when it will fit.
    """
    ending = sorted((holder for holder in held if holder.task_id in ends), key=lambda holder: ends[holder.task_id])
    low, high = 0, len(ending)
    if room_after(ending[:high], held, nodes).place(Need.of(demand)) is None:
        return None
    while low < high:
        middle = (low + high) // 2
        if room_after(ending[:middle], held, nodes).place(Need.of(demand)) is None:
            low = middle + 1
        else:
            high = middle
    if low == 0:  # it fits already: something other than room blocks it
        return None
    room, need = room_after(ending[:low], held, nodes), Need.of(demand)
    driver_at = room.place(need)
    if driver_at is not None:
        room.take(need, driver_at)
    last = ending[low - 1]
    return Reservation(ends[last.task_id], last, room)


def room_after(ended: Sequence[Held], held: Sequence[Held], nodes: Sequence[Node]) -> Capacity:
    """What is free after some of those that hold something have ended."""
    over = {holder.task_id for holder in ended}
    gpus: dict[str, float] = {}
    cpus: dict[str, float] = {}
    others: dict[str, Counter[str]] = defaultdict(Counter)
    for holder in ended:
        for node_id, slots in slots_on(holder).items():
            others[node_id].update({name: slots * amount for name, amount in holder.demand.resources})
        for node_id, amount in holder.claim.gpus.items():
            gpus[node_id] = gpus.get(node_id, 0) + amount
        for node_id, amount in holder.claim.cpus.items():
            cpus[node_id] = cpus.get(node_id, 0) + amount
    freed = [
        replace(
            node,
            free_gpus=min(node.total_gpus, node.free_gpus + gpus.get(node.node_id, 0)),
            free_cpus=min(node.total_cpus, node.free_cpus + cpus.get(node.node_id, 0)),
            free_resources={
                name: min(total, node.free_resources.get(name, 0) + others[node.node_id][name])
                for name, total in node.resources.items()
            },
        )
        for node in nodes
    ]
    return Capacity(freed, [holder for holder in held if holder.task_id not in over])
