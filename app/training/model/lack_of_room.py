"""Why there is no room for a task: of what there is too little, and whether there could ever be enough. Pure."""

from __future__ import annotations

from dataclasses import replace

from app.training.model.capacity import Capacity
from app.training.model.demand import Demand, Need, grains, plain
from app.training.model.state import WaitingCode, WaitingReason


def reason_of(demand: Demand, room: Capacity, empty: Capacity) -> WaitingReason:
    """Of nodes that have its custom resources, if it asks for any.

    Args:
        room: What is free.
        empty: What there is.
    """
    if not demand.resources or not room.trains:
        return _explain_shortage(demand, room, empty)
    need, bare = Need.of(demand), replace(demand, resources=())
    suitable = room.restricted(need)
    if not suitable.trains or suitable.place(Need.of(bare)) is not None:
        names = [name for name, _ in demand.resources]
        never = {} if empty.place(need) is not None else {"never": True}
        return WaitingReason(WaitingCode.RESOURCES, {"names": names, **never})
    return _explain_shortage(bare, suitable, empty.restricted(need))


def _explain_shortage(demand: Demand, room: Capacity, empty: Capacity) -> WaitingReason:
    need = Need.of(demand)
    free = {"free": plain(room.free_gpus()), "needed": demand.gpus}
    if not room.trains:
        return WaitingReason(WaitingCode.GPUS, free) if demand.gpus else _short_of_cpus(demand, room, {})
    too_big = _explain_too_big(demand, empty)
    if too_big is not None:
        return too_big
    never: dict[str, bool] = {} if empty.place(need) is not None else {"never": True}
    if never:
        room_then = empty
    elif room.free_gpus() < need.all_gpus:
        return WaitingReason(WaitingCode.GPUS, free)
    else:
        room_then = room
    if not room_then.has_places(Need(need.slots, need.gpus, 0, 0)):
        together = {"nodes": demand.nodes, "per_node": demand.gpus_per_node}
        return WaitingReason(WaitingCode.WHOLE_NODES, {**free, **together, **never})
    return _short_of_cpus(demand, room, never)


def _short_of_cpus(demand: Demand, room: Capacity, never: dict[str, bool]) -> WaitingReason:
    free, needed = room.free_cpus(Need.of(demand)), grains(demand.cpus)
    together = {"per_node": plain(grains(demand.cpus_per_node))} if free >= needed or never else {}
    return WaitingReason(WaitingCode.CPUS, {"free": plain(free), "needed": plain(needed), **together, **never})


def _explain_too_big(demand: Demand, empty: Capacity) -> WaitingReason | None:
    """needed, total; of: the resource, as there may be too few of either."""
    need = Need.of(demand)
    totals = (("GPU", need.all_gpus, empty.left_gpus), ("CPU", need.all_cpus, empty.left_cpus))
    for of, needed, total in totals:
        if needed > total:
            facts = {"total": plain(total), "needed": plain(needed), "of": of}
            return WaitingReason(WaitingCode.TOO_BIG, facts)
    return None
