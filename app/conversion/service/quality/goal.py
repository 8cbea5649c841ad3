"""The goal of a conversion and its judgement, from its report. Older reports have neither."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.conversion.goals import GoalKind, is_cross_validated
from app.kit.text.json_values import JsonObject


@dataclass(frozen=True)
class StatedGoal:
    text: str
    """As it was given, "snr>=20"."""
    kind: GoalKind
    threshold: float | None = None
    """dB for snr, percent for drop."""
    budget_s: float | None = None
    is_reached: bool = False
    reason_code: str = ""
    """Why it was not reached; empty if it was."""
    reason_params: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class TaskScore:
    """What the model is for, float against int8."""

    kind: str
    """top1, box_f1, mask_iou, keypoints or cosine."""
    float_agreement: float
    """0..1."""
    n: int


@dataclass(frozen=True)
class LabeledScore:
    """How right both models are by the labels that were sent, 0..1."""

    metric: str
    """top-1, mAP@.5:.95 or mAP@.5."""
    float_: float
    int8: float
    n: int
    """Labeled pictures."""
    are_unseen: bool
    """They set no range."""


@dataclass(frozen=True)
class Judgement:
    """On pictures that set no range: how the worst output does, in dB of SNR."""

    calibrate: int
    choose: int
    report: int
    """How many pictures set the ranges, chose among the candidates, and were judged on."""
    n: int
    mean_db: float | None
    p5_db: float | None
    min_db: float | None
    low_db: float | None
    high_db: float | None
    """The interval in which the mean lies."""
    floor_db: float | None
    altered_db: float | None
    """What is sure of the same pictures, nearer and darker; None if none of these was judged on."""
    is_met: bool | None
    task: TaskScore | None
    refused: int = 0
    """How many candidates that reach the goal on the pictures that choose miss it on these."""
    is_own_set: bool = False
    """The pictures that were judged on were sent for that."""
    is_cross_validated: bool = False
    """See goals.is_cross_validated."""
    floor_min_db: float | None = None
    """The lowest SNR with the noise of weak outputs held against more than their own power; None in older reports."""

    @property
    def lowest_db(self) -> float | None:
        """Returns the SNR that must not be below the floor."""
        return self.min_db if self.floor_min_db is None else self.floor_min_db

    @property
    def is_uneven(self) -> bool:
        """The lowest picture is below the floor."""
        return self.lowest_db is not None and self.floor_db is not None and self.lowest_db < self.floor_db


def read_goal(bie: JsonObject) -> StatedGoal | None:
    goal = bie.get("goal")
    if not goal:
        return None
    return StatedGoal(
        text=str(goal.get("text", "")),
        kind=goal.get("kind", "snr"),
        threshold=goal.get("threshold"),
        budget_s=goal.get("budget_s"),
        is_reached=bool(goal.get("is_reached")),
        reason_code=goal.get("reason_code") or "",
        reason_params=goal.get("reason_params") or {},
    )


def read_judgement(bie: JsonObject) -> Judgement | None:
    matching = bie.get("judgement")
    if not matching:
        return None
    names = ("mean_db", "p5_db", "min_db", "low_db", "high_db", "floor_db", "altered_db", "is_met")
    numbers = {name: matching.get(name) for name in names}
    counts = {name: matching.get(name, 0) for name in ("calibrate", "choose", "report", "n", "refused")}
    return Judgement(
        **counts,
        **numbers,
        task=_read_task(matching.get("task")),
        is_own_set=bool(matching.get("is_own_set")),
        is_cross_validated=is_cross_validated(matching),
        floor_min_db=matching.get("floor_min_db"),
    )


def read_labeled(bie: JsonObject) -> tuple[LabeledScore, ...]:
    return tuple(
        LabeledScore(row["metric"], row["float"], row["int8"], row["n"], row["are_unseen"])
        for row in bie.get("labels", ())
    )


def read_sensitivity(bie: JsonObject) -> dict[str, float]:
    """SNR in dB with this layer alone quantized, by the layer's name; empty if no search measured it.

    A search measures tensors; which layer makes one is said by the table of the layers.
    """
    rows = (bie.get("search") or {}).get("sensitivity", ())
    layers = (bie.get("quality") or {}).get("layers", ())
    makers = {row["tensor"]: str(row["name"]) for row in layers if row.get("tensor")}
    lowest: dict[str, float] = {}
    for row in rows:
        if row.get("snr_db") is not None:
            name = makers.get(row.get("tensor"), str(row["layer"]))
            lowest[name] = min(row["snr_db"], lowest.get(name, row["snr_db"]))
    return lowest


def _read_task(task: JsonObject | None) -> TaskScore | None:
    if not task or task.get("kind") in (None, "null") or task.get("float_agreement") is None:
        return None
    return TaskScore(task["kind"], task["float_agreement"], task.get("n", 0))
