"""The grammar of goals and budgets of a conversion. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

GoalKind = Literal["snr", "drop", "fastest", "smallest", "given", "best"]

DEFAULT_GOAL = "snr>=20"
"""The vendor's rule for an acceptable output."""
TASK_GOAL = "drop<=1%"
"""As many of the task's answers as is usual."""
TASK_LOSS_MOST = 5.0
"""Percent of the task that may be lost without a word beside a good SNR."""
DEFAULT_BUDGET_S, BUDGET_S_MAX = 600, 24 * 3600
FORMS = '"snr>=20" (dB at the worst output), "drop<=1%" (of the task), "fastest" or "smallest"'
SNR_DB_MAX = 90.0
"""Beyond what 16 bits can hold no search can help."""

_SNR = re.compile(r"^snr>=(?P<number>\d+(?:\.\d+)?)(?:db)?$")
_DROP = re.compile(r"^drop<=(?P<number>\d+(?:\.\d+)?)%$")
_BUDGET = re.compile(r"^(?P<number>\d+(?:\.\d+)?)(?P<unit>s|m|min|h)?$")
_SECONDS = {None: 1, "s": 1, "m": 60, "min": 60, "h": 3600}


@dataclass(frozen=True)
class Goal:
    text: str
    kind: GoalKind
    threshold: float | None = None
    """dB for snr, percent for drop; None for the others."""


AS_GIVEN = Goal("", "given")
"""Not to search: what is made is known."""
BEST_OF_FEW = Goal("", "best")
"""The best of a few candidates in 8 bits that treat all tensors alike."""


def is_cross_validated(judgement: Mapping[str, Any]) -> bool:
    """Returns whether each picture was judged by a model calibrated without it, while all calibrate the delivered one.

    Args:
        judgement: of a BIE report; see SearchOutcome.judgement.
    """
    calibrate, report = judgement.get("calibrate"), judgement.get("report")
    return bool(calibrate) and calibrate == report and not judgement.get("is_own_set")


def find_hidden_loss(report: Mapping[str, Any]) -> float | None:
    """Returns the percentage of the task that is lost although the SNR is good, as where all outputs share an offset:
    by labels in percentage points, else against the float model. None if it is small, unknown, the goal itself, or
    beside a bad SNR.

    Args:
        report: of the stage BIE.
    """
    if (report.get("goal") or {}).get("kind") == "drop" or not (report.get("verdict") or {}).get("passed"):
        return None
    labeled = next(iter(report.get("labels") or ()), None)
    share = (report.get("quality", {}).get("task") or {}).get("float_agreement")
    if labeled is not None:
        lost = 100.0 * (labeled["float"] - labeled["int8"])
    else:
        lost = 0.0 if share is None else 100.0 * (1.0 - share)
    return lost if lost > TASK_LOSS_MOST else None


def parse_goal(text: str) -> Goal:
    """Read a goal; blanks and case do not matter.

    Raises:
        ValueError: It is not a goal; the text names the possible forms.
    """
    plain = re.sub(r"\s+", "", text).lower().replace("≥", ">=").replace("≤", "<=")
    if plain == "fastest":
        return Goal(plain, "fastest")
    if plain == "smallest":
        return Goal(plain, "smallest")
    if match := _SNR.match(plain):
        return _make_bounded(Goal(plain, "snr", float(match["number"])), SNR_DB_MAX, "dB")
    if match := _DROP.match(plain):
        return _make_bounded(Goal(plain, "drop", float(match["number"])), 100.0, "%")
    raise ValueError(f"{text!r} is not a goal: write {FORMS}")


def parse_budget(text: str) -> float:
    """Returns the seconds of "90", "90s", "10m" or "1h".

    Raises:
        ValueError: The text is no length of time; it names the valid forms.
    """
    match = _BUDGET.match(re.sub(r"\s+", "", text).lower())
    if match is None:
        raise ValueError(f"{text!r} is not a length of time: write 90s, 10m or 1h")
    return float(match["number"]) * _SECONDS[match["unit"]]


def _make_bounded(goal: Goal, most: float, unit: str) -> Goal:
    if goal.threshold is not None and not 0 < goal.threshold <= most:
        raise ValueError(f"the goal {goal.text!r} cannot be: its number must be above 0 and at most {most:g} {unit}")
    return goal
