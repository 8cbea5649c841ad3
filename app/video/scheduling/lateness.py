"""How many frames of a plan came too late, for the profile policy. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from app.video.model.report import PlanResult, taken_of

LATE = 0.05
"""Share of frames that are late or dropped up to which a plan meets the constraint."""
SEVERE = 0.3
"""Share of frames that are late: a plan that sends is changed at once, for its link may have fallen."""
NEAR = 0.8
"""Of the longest delay allowed: where half of the frames take longer, many more will be late."""
QUICK = 0.5
"""Of the longest delay allowed: a new plan whose frames take less does not drop others by its own fault."""


@dataclass(frozen=True)
class Lateness:
    """The performance of the plan in force."""

    is_news: bool = False
    """There are results of it that were not looked at before."""
    frames: int = 0
    """That were late or dropped."""
    is_late: bool = False
    """More of its frames than allowed were."""
    is_many: bool = False
    """And that was for many frames."""
    can_pass: bool = False
    """It is late for what may be over: something else used the host for a moment."""

    @property
    def is_severe(self) -> bool:
        """So many frames are late that the plan is changed at once."""
        return self.is_many and not self.can_pass


def lateness_of(result: PlanResult, hi: float, *, sends: bool, is_young: bool) -> Lateness:
    """Judges the results of a plan.

    Args:
        result: of the plan, with frames.
        hi: the longest delay allowed, seconds.
        sends: whether the plan needs a node other than the host.
        is_young: whether it replaced another plan a short time ago: while frames of that one are under way, those of
            the new one may be dropped.
    """
    p50, p95 = result.get("e2e_p50"), result.get("e2e_p95", 0.0)
    late, dropped = result.get("violations", result.get("frames", 0) if p95 > hi else 0), result.get("dropped", 0)
    if not is_young or p95 > QUICK * hi:
        late += dropped
    share = late / max(1, taken_of(result) + dropped)
    is_late = share > LATE
    is_many = is_late and (share >= SEVERE or p50 is None or p50 > NEAR * hi)
    return Lateness(True, late, is_late, is_many, is_late and not sends)


def takes_computing(result: PlanResult) -> bool:
    """Whether the stages, and waiting for them, take longer than the transport of frames."""
    computing_s = sum(result.get("server", {}).values()) + sum(result.get("queue", {}).values())
    return computing_s > sum(result["delay"].values()) / 2
