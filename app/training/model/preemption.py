"""Who gives way to a more urgent task that waits for room (preemption). Pure.

Only tasks of a less urgent class give way, and only if that makes room for all that the urgent one needs: nobody is
stopped for nothing. The least urgent go first, of these who began last, for they lose the least; and of those no more
than are needed. Who was asked already stays asked while that is needed, so that a decision does not waver from one
look to the next.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from app.training.model.capacity import Node
from app.training.model.demand import Demand, Held, Need
from app.training.model.reservation import room_after
from app.training.model.task import Priority


@dataclass(frozen=True)
class Preemptible:
    """An active task that may be asked to give way."""

    task_id: str
    priority: Priority
    began_at: datetime
    is_asked: bool = False
    """It was asked already, and runs on to its next checkpoint."""


def giving_way(
    demand: Demand,
    priority: Priority,
    held: Sequence[Held],
    nodes: Sequence[Node],
    candidates: Sequence[Preemptible],
    ending: Collection[str] = (),
) -> tuple[str, ...] | None:
    """The tasks that have to give way, so that one that waits finds room.

    Args:
        demand: Of the one that waits.
        priority: Of the one that waits.
        held: Every active task.
        nodes: Of the cluster, with what is free on each.
        candidates: Of the active tasks those that may be asked.
        ending: Active tasks that are being stopped anyway.

    Returns:
        Their ids; none: it fits once those that end have ended. None: it would not fit whoever gave way.
    """
    need = Need.of(demand)

    def fits(others: Collection[Preemptible]) -> bool:
        over = {*ending, *(one.task_id for one in others)}
        return room_after([one for one in held if one.task_id in over], held, nodes).place(need) is not None

    possible = [one for one in candidates if one.priority.rank > priority.rank and one.task_id not in ending]
    possible.sort(key=lambda one: (one.is_asked, one.priority.rank, one.began_at), reverse=True)
    if fits(()):
        return ()
    chosen: list[Preemptible] = []
    for one in possible:
        chosen.append(one)
        if fits(chosen):
            break
    else:
        return None
    for one in reversed(chosen[:-1]):
        rest = [other for other in chosen if other is not one]
        if fits(rest):
            chosen = rest
    return tuple(one.task_id for one in chosen)
