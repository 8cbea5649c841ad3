"""Selects which job's call is computed next: deficit round robin over jobs, so that each gets the same time, whatever
its calls cost. Pure, for one thread."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from app.kit.errors import TooMany

Item = TypeVar("Item")
QUANTUM_S = 0.005
"""What each job that waits is given in each round."""
MOST_DEBT_S = 1.0
"""One call that hangs is not held against its job forever."""
MOST_WAITING = 4
"""Of a job. A caller whose calls wait longer had better leave frames out."""
FIRST_GUESS_S = 0.01


@dataclass
class _Job(Generic[Item]):
    """What waits of one job, and what it has had."""

    waiting: deque[Item] = field(default_factory=deque)
    credit: float = 0.0
    """Seconds; below zero it has had more than its share."""
    guess: float = FIRST_GUESS_S
    """Of its next call's cost, in seconds."""
    under_way: int = 0
    paid: deque[float] = field(default_factory=deque)


class FairQueue(Generic[Item]):
    """A call is paid in advance by what the job's calls have cost lately, and settled when that is known: several
    processes share fairly, too. Debts are kept while a job is unreachable for a moment; savings are not."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most = most_waiting
        self._jobs: dict[str, _Job[Item]] = {}
        self._turn: deque[str] = deque()
        """Jobs that wait, the next one first."""

    def __len__(self) -> int:
        return sum(len(job.waiting) for job in self._jobs.values())

    def check(self, name: str) -> None:
        """Checks that one more call of the job may wait.

        Raises:
            TooMany: As many wait as may.
        """
        job = self._jobs.get(name)
        if job is not None and len(job.waiting) >= self._most:
            raise TooMany(
                f"{len(job.waiting)} calls of this job wait already.",
                hint="Leave frames out, or ask for a smaller picture or model.",
            )

    def put(self, name: str, item: Item) -> None:
        """Appends a call to those of its job.

        Raises:
            TooMany: As many of the job wait as may.
        """
        self.check(name)
        job = self._jobs.setdefault(name, _Job())
        if not job.waiting:
            self._turn.append(name)
        job.waiting.append(item)

    def drop(self, name: str, item: Item) -> None:
        """Removes a call that nobody waits for any more. One that has been taken meanwhile is computed all the same."""
        job = self._jobs.get(name)
        if job is None or not any(each is item for each in job.waiting):
            return
        job.waiting = deque(each for each in job.waiting if each is not item)
        if not job.waiting:
            self._turn.remove(name)
            job.credit = min(job.credit, 0.0)
        self._forget()

    def take(self) -> tuple[str, Item] | None:
        if not self._turn:
            return None
        self._lift()
        while not self._may_go(self._jobs[self._turn[0]]):
            self._turn.rotate(-1)
        name = self._turn[0]
        item = self._take(name)
        if self._turn and self._turn[0] == name and self._jobs[name].credit <= 0:
            self._turn.rotate(-1)
        return name, item

    def take_along(self, fits: Callable[[Item], bool]) -> tuple[str, Item] | None:
        """Takes one that can be computed together with one that was taken, whoever's turn it is. It is settled as any
        other."""
        name = next((name for name in self._turn if fits(self._jobs[name].waiting[0])), None)
        return None if name is None else (name, self._take(name))

    def _take(self, name: str) -> Item:
        job = self._jobs[name]
        item = job.waiting.popleft()
        job.under_way += 1
        job.credit -= job.guess
        job.paid.append(job.guess)
        if not job.waiting:
            self._turn.remove(name)
        return item

    def settle(self, name: str, cost_s: float) -> None:
        """What a call that was taken has cost."""
        job = self._jobs[name]
        job.under_way -= 1
        job.credit = max(job.credit + job.paid.popleft() - cost_s, -MOST_DEBT_S)
        job.guess = 0.7 * job.guess + 0.3 * cost_s
        if not job.waiting and not job.under_way:
            job.credit = min(job.credit, 0.0)
        self._forget()

    @staticmethod
    def _may_go(job: _Job[Item]) -> bool:
        """Now that it is its turn."""
        if job.credit <= 0:
            job.credit += QUANTUM_S
        return job.credit > 0

    def _lift(self) -> None:
        """All the rounds at once in which nobody could go."""
        rounds = min(math.ceil(-self._jobs[name].credit / QUANTUM_S) for name in self._turn) - 1
        for name in self._turn if rounds > 0 else ():
            self._jobs[name].credit += rounds * QUANTUM_S

    def _forget(self) -> None:
        """Jobs that are unreachable and owe nothing, and of many that owe the first."""
        away = [name for name, job in self._jobs.items() if not job.waiting and not job.under_way]
        for name in [name for name in away if self._jobs[name].credit >= 0] or away[: max(0, len(away) - 64)]:
            del self._jobs[name]
