"""Since when a plan of the profile policy is in force, and how it has done. Pure; stored between calls as JSON."""

from __future__ import annotations

from typing import NotRequired, TypedDict

from app.video.scheduling.contract import PolicyState

PERIODS = 2
"""In so many periods in a row another plan must have been the better one, or the plan in force late."""
STAY_S = 10.0
"""A plan that does well is kept at least so long, seconds."""
SOON_S = 15.0
"""A plan that is late within so many seconds should not have been chosen."""
SETTLE_S = 2.5
"""For so long the results may be those of the plan before."""


class _Stored(TypedDict):
    since: float
    """When the plan came into force, in seconds of a steady clock."""
    streak: int
    """Periods in a row in which another plan was better."""
    late: int
    """Periods in a row in which this plan was late."""
    trouble: NotRequired[int]
    """Periods in a row in which the plan in force was late, whichever it was."""
    changes: int
    """How many plans there were."""
    seq: NotRequired[int | None]
    """Number of the plan with the newest results."""
    stale: int | None
    """Results of plans up to this number are not looked at any more."""
    wish: NotRequired[list[float]]
    """Delay in seconds and quality as they were demanded."""


class PlanHistory:
    """The plan in force, and the plans before it.

    Args:
        state: The policy's state: `turns` in it is read and changed in place.
        now: Of a steady clock, in seconds. A plan that began later was chosen before that clock restarted.
    """

    def __init__(self, state: PolicyState, now: float) -> None:
        self._now = now
        self._stored: _Stored = state.setdefault(
            "turns", {"since": now, "streak": 0, "late": 0, "changes": 0, "stale": None}
        )
        self._stored["since"] = min(self._stored["since"], now)

    @property
    def late(self) -> int:
        """Periods in a row in which the plan in force was late."""
        return self._stored["late"]

    @property
    def streak(self) -> int:
        """Periods in a row in which another plan was better."""
        return self._stored["streak"]

    @property
    def has_been_outdone(self) -> bool:
        """Was another plan better for long enough?"""
        return self.streak >= PERIODS

    @property
    def is_young(self) -> bool:
        """Did the plan in force replace another one a short time ago?"""
        return self._age_s < SOON_S and self._stored["changes"] > 1

    @property
    def is_settling(self) -> bool:
        """May what the plan before left in queues still show in the results?"""
        return self._age_s < SETTLE_S and self._stored["changes"] > 1

    @property
    def is_rested(self) -> bool:
        """Has the plan been in force for long enough to be replaced by a better one?"""
        return self._age_s >= STAY_S

    @property
    def is_sudden(self) -> bool:
        """Is a plan late for the first time that did well so far, or is the first? Then the delays are those of frames
        that waited through a change, and say nothing of the plan."""
        return self._stored.get("trouble") == 1 and not self.is_young

    def sees(self, seq: int | None) -> bool:
        """Whether results count: those of a plan that was replaced in the meantime do not.

        Args:
            seq: number of the plan that they are of; None: they do not say.
        """
        stale = self._stored["stale"]
        if seq is not None and stale is not None and seq <= stale:
            return False
        self._stored["stale"], self._stored["seq"] = None, seq
        return True

    def note_results(self, *, is_late: bool) -> None:
        self._stored["late"] = self._stored["late"] + 1 if is_late else 0
        self._stored["trouble"] = self._stored.get("trouble", 0) + 1 if is_late else 0

    def note_other(self, *, is_better: bool) -> None:
        """Notes whether another plan is better now."""
        self._stored["streak"] = self._stored["streak"] + 1 if is_better else 0

    def note_goal(self, delay_s: float, quality: float) -> bool:
        """Notes what is demanded. Returns whether something else was demanded before."""
        goal = [delay_s, quality]
        is_new = self._stored.get("wish", goal) != goal
        self._stored["wish"] = goal
        return is_new

    def begin(self) -> None:
        """Another plan comes into force."""
        stored = self._stored
        stored["since"], stored["streak"], stored["late"] = self._now, 0, 0
        stored["stale"] = stored.get("seq")
        stored["changes"] += 1

    @property
    def _age_s(self) -> float:
        return self._now - self._stored["since"]
