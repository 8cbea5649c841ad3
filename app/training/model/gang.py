"""Decides which waiting tasks go to Ray now, and why the others wait. Pure and stateless.

**The gang rule.** A task starts when its whole demand is free at once: each of its slots entirely on one node that may
train (several slots may share a node), with the CPUs that belong to it, and the CPUs of its driver on any node. `room`
is what is free: never more than Ray reports, minus what active tasks were promised and have not claimed yet.

**The queue is strict among tasks that compete.** Behind the first that waits for room, or to be retried where it
does not fit, a later one starts only if it takes nothing of any that wait before it, whenever running tasks end: see
`headroom`. Otherwise small tasks would forever take what a large one waits for. A retry that is not due
(`next_run_at`) and fits keeps its room, and others start beside it. A task with `backfill` lets others go ahead while
it waits: any task that fits starts, even with the resources it waited for.

A task that is too large for the current cluster keeps its place as well. Nodes leave and return, within a minute if
Ray is restarted on one; a run of days that started in that minute would cost the head of the queue those days. A task
that requests more than will ever exist gets that as its reason; cancelling it resolves this.

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
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from app.kit.clock import from_text, to_text
from app.training.model.capacity import Capacity, Node
from app.training.model.demand import Demand, Held, Need
from app.training.model.headroom import Line
from app.training.model.lack_of_room import reason_of
from app.training.model.preemption import Preemptible, giving_way
from app.training.model.reservation import Reservation, reserve
from app.training.model.state import WaitingCode, WaitingReason
from app.training.model.task import Priority


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
    reasons: dict[str, WaitingReason] = field(default_factory=dict)
    """Of all others, by task, in order."""
    giving_way: tuple[str, ...] = ()
    """Ids of active tasks that must make room for the first that waits for room: see preemption."""
    passed: Mapping[str, int] = field(default_factory=dict)
    """Of admitted tasks that need nothing of what others wait for: how many of these they go ahead of."""


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
    round_ = _Round(held, nodes, now, may_start, rules, elsewhere)
    reasons = {queued.task_id: reason for queued in waiting if (reason := round_.reason(queued)) is not None}
    return round_.decision(reasons)


PASSED_BY = frozenset({WaitingCode.USER_LIMIT, WaitingCode.ENVIRONMENT_LIMIT, WaitingCode.BEHIND})
"""Tasks that wait for this let others go ahead."""
_BEHIND = WaitingReason(WaitingCode.BEHIND)
"""One for all: a queue of ten thousand would make as many objects in each decision."""
_NO_ROOM = WaitingReason(WaitingCode.GPUS)
"""Placeholder for what is known only when all have been considered."""


class _Round:
    def __init__(
        self,
        held: Sequence[Held],
        nodes: Sequence[Node],
        now: str,
        may_start: int | None,
        rules: AdmissionRules,
        elsewhere: int,
    ) -> None:
        self.held, self.nodes = held, nodes
        self.room = Capacity(nodes, held)
        self.now = now
        self.may_start = may_start
        self.rules = rules
        self.active = len(held) + elsewhere
        self.held_gpus = Counter(rules.held_gpus)
        self.held_by_environment = Counter(rules.held_by_environment)
        self.admitted: list[Queued] = []
        self.passed: dict[str, int] = {}
        self.refused: set[Demand] = set()
        """Room only shrinks in a round: a task that does not fit once does not fit later."""
        self.unfit: dict[str, Demand] = {}
        """What waits for room, by task."""
        self.head: tuple[Queued, Reservation] | None = None
        self.line: Line | None = None
        """What waits, once the first has to wait for room without a reservation."""
        self.giving: tuple[str, ...] = ()
        self.is_over = False

    def reason(self, queued: Queued) -> WaitingReason | None:
        """Why the next in line waits. None: it is admitted."""
        if self.is_over:
            return _BEHIND
        if self.line is not None and not self._lets_pass(queued, self.line):
            self.line.add(queued)
            return _BEHIND
        reason = self._consider(queued)
        if reason is None:
            if self.line is not None:
                self.line.take(queued)
                self.passed[queued.task_id] = len(self.line)
            return None
        if reason is _NO_ROOM:
            self.unfit[queued.task_id] = queued.demand
        self._hold_back_others(queued, reason)
        return reason

    def decision(self, reasons: dict[str, WaitingReason]) -> Decision:
        """reasons: of all that wait, in order."""
        empty = Capacity(self.nodes)
        why = {demand: reason_of(demand, self.room, empty) for demand in set(self.unfit.values())}
        reasons.update((task_id, why[demand]) for task_id, demand in self.unfit.items())
        if self.giving:
            first = next(iter(self.unfit))
            reasons[first] = _with(reasons[first], giving_way=len(self.giving))
        if self.head:
            queued, reservation = self.head
            reasons[queued.task_id] = _with(reasons[queued.task_id], **_promise(queued, reservation))
        return Decision(tuple(one.task_id for one in self.admitted), reasons, self.giving, self.passed)

    def _hold_back_others(self, queued: Queued, reason: WaitingReason) -> None:
        """What the waiting of this one means for those behind it."""
        gone = self._find_giving_way(queued) if reason is _NO_ROOM and len(self.unfit) == 1 else None
        if gone is not None:  # what they leave is for this one
            self.giving, self.is_over = gone, True
            return
        if queued.backfill or self.head or reason.code in PASSED_BY or self._keeps_room_for(queued, reason):
            return
        if reason.code is WaitingCode.MOST_RUNNING:
            self.is_over = True
            return
        if reason is _NO_ROOM and self.rules.does_backfill and self.line is None:
            reservation = self._reserve(queued)
            self.head = (queued, reservation) if reservation else None
        if self.head is None:
            if self.line is None:
                self.line = self._describe_line()
            self.line.add(queued)

    def _keeps_room_for(self, queued: Queued, reason: WaitingReason) -> bool:
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

    def _describe_line(self) -> Line:
        """Behind the first that waits for room, and what was admitted just now."""
        rules = self.rules
        return Line(
            self.nodes,
            [*self.held, *self._list_begun()],
            limits_users=rules.most_gpus_per_user is not None,
            limited_environments=rules.most_gpus_per_environment,
        )

    def _lets_pass(self, queued: Queued, line: Line) -> bool:
        """Whether a task takes nothing of those that wait before it, nor of the number that may be active."""
        has_places = self.may_start is None or self.may_start - len(self.admitted) > len(line)
        return has_places and line.lets_pass(queued)

    def _list_begun(self) -> list[Held]:
        return [Held(one.task_id, one.demand, user=one.user) for one in self.admitted]

    def _consider(self, queued: Queued) -> WaitingReason | None:
        """None: it is admitted."""
        held_back = self._find_hold(queued)
        if held_back is not None:
            return held_back
        if queued.demand in self.refused:
            return _NO_ROOM
        need = Need.of(queued.demand)
        driver_at = self.room.place(need)
        if driver_at is None:
            self.refused.add(queued.demand)
            return _NO_ROOM
        if self.head and not self.head[1].admits(queued.demand, queued.run_limit_s, from_text(self.now)):
            return _BEHIND
        self.room.take(need, driver_at)
        self.held_gpus[queued.user] += queued.demand.gpus
        self.held_by_environment[queued.environment] += queued.demand.gpus
        self.admitted.append(queued)
        return None

    def _find_hold(self, queued: Queued) -> WaitingReason | None:
        """By something other than room."""
        if queued.next_run_at is not None and queued.next_run_at > self.now:
            return WaitingReason(WaitingCode.RETRY, {"at": queued.next_run_at})
        if self.may_start is not None and len(self.admitted) >= self.may_start:
            return WaitingReason(WaitingCode.MOST_RUNNING, {"most": self.active + self.may_start})
        most, gpus = self.rules.most_gpus_per_user, self.held_gpus[queued.user]
        if most is not None and queued.demand.gpus and gpus + queued.demand.gpus > most:
            return WaitingReason(WaitingCode.USER_LIMIT, {"held": gpus, "most": most})
        name = queued.environment
        most, gpus = self.rules.most_gpus_per_environment.get(name), self.held_by_environment[name]
        if most is not None and queued.demand.gpus and gpus + queued.demand.gpus > most:
            return WaitingReason(WaitingCode.ENVIRONMENT_LIMIT, {"environment": name, "held": gpus, "most": most})
        return None

    def _find_giving_way(self, queued: Queued) -> tuple[str, ...] | None:
        """To this one, behind what was admitted just now. None: nobody can, or may."""
        rules = self.rules
        if queued.backfill or not (rules.preemptible or rules.ending):
            return None
        return giving_way(
            queued.demand,
            queued.priority,
            [*self.held, *self._list_begun()],
            self.nodes,
            rules.preemptible,
            rules.ending,
        )

    def _reserve(self, queued: Queued) -> Reservation | None:
        """For the head, after running and just admitted tasks. None: it is unknown when it will fit."""
        now, ends = from_text(self.now), dict(self.rules.ends)
        for one in self.admitted:
            if one.run_limit_s is not None:
                ends[one.task_id] = now + timedelta(seconds=one.run_limit_s)
        return reserve(queued.demand, [*self.held, *self._list_begun()], self.nodes, ends)


def _promise(queued: Queued, reservation: Reservation) -> dict[str, str]:
    """What the head is told. The id of a task names its user and its time: only that user is told it."""
    after = reservation.after
    which = {"after_task": after.task_id} if after.user == queued.user else {}
    return {"starts_by": to_text(reservation.starts_by), "after_user": after.user, **which}


def _with(reason: WaitingReason, **facts: object) -> WaitingReason:
    return WaitingReason(reason.code, {**reason.facts, **facts})
