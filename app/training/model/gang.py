"""Decides which waiting tasks go to Ray now, and why the others wait. Pure and stateless.

**The gang rule.** A task starts when its whole demand is free at once: each of its slots entirely on one node that may
train (several slots may share a node), with the CPUs that belong to it, and the CPUs of its driver on any node. `room`
is what is free: never more than Ray reports, minus what active tasks were promised and have not claimed yet.

**The queue is strict.** The first that must wait ends the admission, whatever the reason: room, a retry that is not due
(`next_run_at`) and does not fit, too large for the whole cluster. Otherwise small tasks would forever take what a large
one waits for. A retry that is not due and fits keeps its room, and others start beside it. A task with `backfill` lets
others go ahead while it waits: any task that fits starts, even with the resources it waited for.

A task that is too large for the current cluster blocks as well. Nodes leave and return, within a minute if Ray is
restarted on one; a run of days that started in that minute would cost the head of the queue those days. A task that
requests more than will ever exist gets that as its reason, as do the tasks behind it; cancelling it resolves this.

**Backfill.** If it is on and the time limits of running tasks determine when the head can start, later tasks go ahead
if they do not delay it: see `reservation`. The head gets its start time.

**Preemption.** If less urgent tasks may be preempted, and enough of them run, they make room for the first task that
waits for room, if it is more urgent. Until they have stopped, nobody goes ahead of it: see `preemption`.

**Limits of users and environments.** Tasks of a user at the GPU limit keep their place, and others go ahead; the same
holds for tasks of an environment at its limit.

The reasons describe the end of the decision: what they report as free is what is left then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from app.kit.clock import from_text, to_text
from app.training.model.capacity import Capacity, Demand, Held, Need, Node, grains, plain
from app.training.model.preemption import Preemptible, giving_way
from app.training.model.reservation import Reservation, reserve
from app.training.model.task import Priority, Waiting, WaitingCode


@dataclass(frozen=True)
class Queued:
    """A waiting task."""

    task_id: str
    demand: Demand
    backfill: bool = False
    next_run_at: str | None = None
    """Earliest start, as ISO 8601 in UTC."""
    user: str = ""
    run_limit_s: int | None = None
    """Its time limit; None: none."""
    priority: Priority = Priority.NORMAL
    environment: str = ""


@dataclass(frozen=True)
class Decision:
    """Which tasks start, and why the others do not."""

    admitted: tuple[str, ...] = ()
    """Ids of tasks, in the order of the queue."""
    reasons: dict[str, Waiting] = field(default_factory=dict)
    """Of all others, by task, in order."""
    giving_way: tuple[str, ...] = ()
    """Ids of active tasks that must make room for the first that waits for room: see preemption."""


@dataclass(frozen=True)
class AdmissionRules:
    """The installation's rules in addition to the gang rule."""

    most_gpus_per_user: int | None = None
    held_gpus: Mapping[str, int] = field(default_factory=dict)
    """By user, of active tasks."""
    most_gpus_per_environment: Mapping[str, int] = field(default_factory=dict)
    """By environment; those without a limit are not in it."""
    held_by_environment: Mapping[str, int] = field(default_factory=dict)
    """By environment, GPUs of active tasks."""
    does_backfill: bool = False
    ends: Mapping[str, datetime] = field(default_factory=dict)
    """The latest end of active tasks, by id; those without a limit are absent."""
    preemptible: Sequence[Preemptible] = ()
    """Active tasks that may be preempted."""
    ending: Collection[str] = ()
    """Ids of active tasks that are being stopped already."""


def decide(
    waiting: Sequence[Queued],
    held: Sequence[Held],
    nodes: Sequence[Node],
    *,
    now: str,
    may_start: int | None,
    rules: AdmissionRules = AdmissionRules(),
    elsewhere: int = 0,
) -> Decision:
    """Chooses the tasks that start now.

    Args:
        waiting: In the order of the queue.
        held: Every active task, the cancelled ones too until they have stopped.
        nodes: The nodes of the cluster, with what Ray reports as free on each.
        now: ISO 8601 in UTC.
        may_start: How many more may be active at once; None: any number. It may be below zero.
        rules: The installation's further rules.
        elsewhere: How many are active on other clusters, and count for may_start.
    """
    round_ = _Round(Capacity(nodes, held), now, may_start, rules)
    reasons: dict[str, Waiting] = {}
    unfit: dict[str, Demand] = {}
    head: tuple[str, Reservation] | None = None
    is_over = False
    giving: tuple[str, ...] = ()
    for queued in waiting:
        if is_over:
            reasons[queued.task_id] = _BEHIND
            continue
        reason = round_.consider(queued, len(held) + elsewhere)
        if reason is None:
            continue
        if reason is _NO_ROOM:
            unfit[queued.task_id] = queued.demand
        reasons[queued.task_id] = reason
        gone = round_.giving_way(queued, held, nodes) if reason is _NO_ROOM and len(unfit) == 1 else None
        if gone is not None:  # what they leave is for this one
            giving, is_over = gone, True
            continue
        if queued.backfill or head or reason.code in PASSED_BY or round_.keeps_room_for(queued, reason):
            continue
        if reason is _NO_ROOM and rules.does_backfill:
            reservation = round_.reserve(queued, held, nodes)
            head = (queued.task_id, reservation) if reservation else None
        is_over = head is None
    empty = Capacity(nodes)
    why = {demand: _why(demand, round_.room, empty) for demand in set(unfit.values())}
    reasons.update((task_id, why[demand]) for task_id, demand in unfit.items())
    if giving:
        _add(reasons, next(iter(unfit)), giving_way=len(giving))
    if head:
        _add(reasons, head[0], starts_by=to_text(head[1].starts_by))
    return Decision(tuple(one.task_id for one in round_.admitted), reasons, giving)


def _add(reasons: dict[str, Waiting], task_id: str, **facts: Any) -> None:
    reason = reasons[task_id]
    reasons[task_id] = Waiting(reason.code, {**reason.facts, **facts})


PASSED_BY = frozenset({WaitingCode.USER_LIMIT, WaitingCode.ENVIRONMENT_LIMIT, WaitingCode.BEHIND})
"""Tasks that wait for this let others go ahead."""
_BEHIND = Waiting(WaitingCode.BEHIND)
"""One for all: a queue of ten thousand would make as many objects in each decision."""
_NO_ROOM = Waiting(WaitingCode.GPUS)
"""Placeholder for what is known only when all have been considered."""


class _Round:
    def __init__(self, room: Capacity, now: str, may_start: int | None, rules: AdmissionRules) -> None:
        self.room = room
        self.now = now
        self.may_start = may_start
        self.rules = rules
        self.reservation: Reservation | None = None
        self.held_gpus = Counter(rules.held_gpus)
        self.held_by_environment = Counter(rules.held_by_environment)
        self.admitted: list[Queued] = []
        self.refused: set[Demand] = set()
        """Room only shrinks in a round: a task that does not fit once does not fit later."""

    def keeps_room_for(self, queued: Queued, reason: Waiting) -> bool:
        """A task that is to be retried, and would fit: it did not fail for lack of room. Its resources stay free, and
        nobody waits for the rest."""
        if reason.code is not WaitingCode.RETRY or queued.demand in self.refused:
            return False
        need = Need.of(queued.demand)
        driver_at = self.room.place(need)
        if driver_at is None:
            return False
        self.room.take(need, driver_at)
        return True

    def consider(self, queued: Queued, active: int) -> Waiting | None:
        """None: it is admitted."""
        held_back = self._held_back(queued, active)
        if held_back is not None:
            return held_back
        if queued.demand in self.refused:
            return _NO_ROOM
        need = Need.of(queued.demand)
        driver_at = self.room.place(need)
        if driver_at is None:
            self.refused.add(queued.demand)
            return _NO_ROOM
        if self.reservation and not self.reservation.admits(queued.demand, queued.run_limit_s, from_text(self.now)):
            return _BEHIND
        self.room.take(need, driver_at)
        self.held_gpus[queued.user] += queued.demand.gpus
        self.held_by_environment[queued.environment] += queued.demand.gpus
        self.admitted.append(queued)
        return None

    def _held_back(self, queued: Queued, active: int) -> Waiting | None:
        """By something other than room."""
        if queued.next_run_at is not None and queued.next_run_at > self.now:
            return Waiting(WaitingCode.RETRY, {"at": queued.next_run_at})
        if self.may_start is not None and len(self.admitted) >= self.may_start:
            return Waiting(WaitingCode.MOST_RUNNING, {"most": active + self.may_start})
        most, gpus = self.rules.most_gpus_per_user, self.held_gpus[queued.user]
        if most is not None and queued.demand.gpus and gpus + queued.demand.gpus > most:
            return Waiting(WaitingCode.USER_LIMIT, {"held": gpus, "most": most})
        name = queued.environment
        most, gpus = self.rules.most_gpus_per_environment.get(name), self.held_by_environment[name]
        if most is not None and queued.demand.gpus and gpus + queued.demand.gpus > most:
            return Waiting(WaitingCode.ENVIRONMENT_LIMIT, {"environment": name, "held": gpus, "most": most})
        return None

    def giving_way(self, queued: Queued, held: Sequence[Held], nodes: Sequence[Node]) -> tuple[str, ...] | None:
        """To this one, behind what was admitted just now. None: nobody can, or may."""
        begun = [Held(one.task_id, one.demand) for one in self.admitted]
        rules = self.rules
        if queued.backfill or not (rules.preemptible or rules.ending):
            return None
        return giving_way(queued.demand, queued.priority, [*held, *begun], nodes, rules.preemptible, rules.ending)

    def reserve(self, queued: Queued, held: Sequence[Held], nodes: Sequence[Node]) -> Reservation | None:
        """For the head, after running and just admitted tasks. None: it is unknown when it will fit."""
        now, ends = from_text(self.now), dict(self.rules.ends)
        for one in self.admitted:
            if one.run_limit_s is not None:
                ends[one.task_id] = now + timedelta(seconds=one.run_limit_s)
        begun = [Held(one.task_id, one.demand) for one in self.admitted]
        self.reservation = reserve(queued.demand, [*held, *begun], nodes, ends)
        return self.reservation


# --- why there is no room ---
def _why(demand: Demand, room: Capacity, empty: Capacity) -> Waiting:
    """Of nodes that have its custom resources, if it asks for any."""
    if not demand.resources or not room.trains:
        return _short(demand, room, empty)
    need, bare = Need.of(demand), replace(demand, resources=())
    suitable = room.restricted(need)
    if not suitable.trains or suitable.place(Need.of(bare)) is not None:
        names = [name for name, _ in demand.resources]
        never = {} if empty.place(need) is not None else {"never": True}
        return Waiting(WaitingCode.RESOURCES, {"names": names, **never})
    return _short(bare, suitable, empty.restricted(need))


def _short(demand: Demand, room: Capacity, empty: Capacity) -> Waiting:
    need = Need.of(demand)
    free = {"free": plain(room.free_gpus()), "needed": demand.gpus}
    if not room.trains:
        return _short_of_gpus(free) if demand.gpus else _short_of_cpus(demand, room, {})
    too_big = _too_big(demand, empty)
    if too_big is not None:
        return too_big
    never: dict[str, Any] = {} if empty.place(need) is not None else {"never": True}
    if never:
        room_then = empty
    elif room.free_gpus() < need.all_gpus:
        return _short_of_gpus(free)
    else:
        room_then = room
    if not room_then.has_places(Need(need.slots, need.gpus, 0, 0)):
        together = {"nodes": demand.nodes, "per_node": demand.gpus_per_node}
        return Waiting(WaitingCode.WHOLE_NODES, {**free, **together, **never})
    return _short_of_cpus(demand, room, never)


def _short_of_gpus(free: dict[str, Any]) -> Waiting:
    return Waiting(WaitingCode.GPUS, free)


def _short_of_cpus(demand: Demand, room: Capacity, never: dict[str, Any]) -> Waiting:
    free, needed = room.free_cpus(Need.of(demand)), grains(demand.cpus)
    together = {"per_node": plain(grains(demand.cpus_per_node))} if free >= needed or never else {}
    return Waiting(WaitingCode.CPUS, {"free": plain(free), "needed": plain(needed), **together, **never})


def _too_big(demand: Demand, empty: Capacity) -> Waiting | None:
    """needed, total; of: the resource, as there may be too few of either."""
    need = Need.of(demand)
    totals = (("GPU", need.all_gpus, empty.left_gpus), ("CPU", need.all_cpus, empty.left_cpus))
    for of, needed, total in totals:
        if needed > total:
            facts = {"total": plain(total), "needed": plain(needed), "of": of}
            return Waiting(WaitingCode.TOO_BIG, facts)
    return None
