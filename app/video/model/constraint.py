"""A user's constraint for a job: how long a frame may take, and how good the answers must be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from typing_extensions import TypedDict

from app.kit.text.json_values import JsonObject
from app.video.errors import BadConstraint
from app.video.model.reader import Reader, shorten_value

LEVELS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95)
"""acc_level 0..5 as the required share of the reference configuration's answers."""
DEFAULT_DELAY_S = 0.8
MAX_DELAY_S = 3600.0
MAX_ACCURACY = 10.0
"""The requirement's example has 10, "to be settled": values above the highest level count as that."""


class ConstraintDocument(TypedDict, total=False):
    """A constraint as it is written."""

    delay: float | list[float] | None
    """Longest delay in seconds, or [lowest, longest]; a lowest of -1: none."""
    accuracy: float | None
    """0 to 1, or a level of 2 to 5."""
    acc_level: int | None
    """0 to 5, instead of accuracy."""


@dataclass(frozen=True)
class Constraint:
    """How long a frame may take, and how good the answers must be."""

    lo: float = -1.0
    """Seconds from a frame's capture to its result below which there is room for better quality; -1: none."""
    hi: float = DEFAULT_DELAY_S
    """The longest delay allowed, seconds."""
    quality: float = 0.0
    """The lowest quality allowed, 0..1, relative to the reference configuration."""
    given: Mapping[str, Any] | None = field(default=None, compare=False)
    """The user's input."""

    def to_json(self) -> JsonObject:
        """The user's input, completed with the defaults."""
        written = dict(self.given or {})
        written.setdefault("delay", self.hi if self.lo < 0 else [self.lo, self.hi])
        if "acc_level" not in written:
            written.setdefault("accuracy", self.quality)
        return written


_READER = Reader(BadConstraint)


def read_constraint(data: object) -> Constraint:
    """Reads a user's constraint.

    Args:
        data: {"delay": s | [lo, hi], "accuracy": a | "acc_level": 0..5}, where each may be omitted; None: the
            default. An accuracy up to 1 is the quality, above it is a level.

    Raises:
        BadConstraint: It has another form; the message names the place.
    """
    if data is None:
        return Constraint()
    fields = _READER.mapping(data, "user_constraint", most=8)
    _READER.only_keys(fields, "user_constraint", tuple(ConstraintDocument.__annotations__))
    lo, hi = _read_delay(fields["delay"]) if fields.get("delay") is not None else (-1.0, DEFAULT_DELAY_S)
    return Constraint(lo, hi, _read_quality(fields), {key: value for key, value in fields.items() if value is not None})


def _read_delay(data: object) -> tuple[float, float]:
    place = "user_constraint.delay"
    if isinstance(data, list | tuple):
        if len(data) != 2:
            raise _READER.problem(place, f"has {len(data)} numbers", "A range is [lowest, highest], -1 for no lowest.")
        lo, hi = (_READER.number(each, f"{place}[{index}]") for index, each in enumerate(data))
    else:
        lo, hi = -1.0, _READER.number(data, place)
    if not 0 < hi <= MAX_DELAY_S:
        raise _READER.problem(
            place, f"{shorten_value(hi)} s is no delay", f"It is above 0 and at most {MAX_DELAY_S:g} seconds."
        )
    if lo != -1 and not 0 <= lo < hi:
        raise _READER.problem(
            place,
            f"[{shorten_value(lo)}, {shorten_value(hi)}] is no range",
            "Write [lowest, highest], -1 for no lowest.",
        )
    return lo, hi


def _read_quality(fields: Mapping[str, Any]) -> float:
    accuracy, level = fields.get("accuracy"), fields.get("acc_level")
    if accuracy is not None and level is not None:
        raise _READER.problem("user_constraint", "has both accuracy and acc_level", "Leave one of them out.")
    if level is not None:
        return LEVELS[_READER.integer(level, "user_constraint.acc_level", least=0, most=len(LEVELS) - 1)]
    return 0.0 if accuracy is None else _quality_of_accuracy(accuracy)


def _quality_of_accuracy(data: object) -> float:
    place = "user_constraint.accuracy"
    accuracy = _READER.number(data, place)
    if 0 <= accuracy <= 1:
        return accuracy
    if not 1 < accuracy <= MAX_ACCURACY or accuracy != int(accuracy):
        raise _READER.problem(
            place, f"{shorten_value(data)} is neither a share nor a level", "It is 0 to 1, or a level of 2 to 5."
        )
    return LEVELS[min(int(accuracy), len(LEVELS) - 1)]
