"""The document of a sweep: a task, and the fields that differ between its tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator

from app.kit.errors import BadInput
from app.kit.web.http import checked
from app.training.model.sweep import MOST_TASKS, Interval, Point, Search, Values, drawn, grid, label_of, size_of
from app.training.spec.changes import with_values
from app.training.spec.document import bad, read_fields
from app.training.spec.fields import Frozen
from app.training.spec.texts import unfit

NAME_CHARS = 200


class IntervalSpec(Frozen):
    low: float
    high: float
    log: bool = False

    @model_validator(mode="after")
    def _is_an_interval(self) -> IntervalSpec:
        if not (self.low < self.high and (self.low > 0 or not self.log)):
            raise unfit("low must be below high, and above zero if log is true")
        return self


def _kind_of(given: Any) -> str:
    return "map" if isinstance(given, dict | IntervalSpec) else "list"


_ListSpec = Annotated[list[JsonValue], Field(min_length=1, max_length=MOST_TASKS), Tag("list")]


class SweepSpec(Frozen):
    """What a sweep says beside the fields of a task."""

    vary: Annotated[
        dict[str, Annotated[_ListSpec | Annotated[IntervalSpec, Tag("map")], Discriminator(_kind_of)]],
        Field(min_length=1, max_length=10),
    ]
    """By field, as total_epochs or overrides.trainer.seed, a list of values; for a random search also a map of low
    and high, with log: true for orders of magnitude."""
    search: Annotated[Search, Field(strict=False)] = Search.GRID
    """grid: every combination; random: so many at random."""
    most: Annotated[int, Field(ge=1, le=MOST_TASKS)] = 10
    """random: how many tasks."""
    seed: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    """random: the same seed draws the same values."""

    @model_validator(mode="after")
    def _has_a_size(self) -> SweepSpec:
        size = size_of(self.values)
        if self.search is Search.GRID and size > MOST_TASKS:
            if math.isinf(size):
                raise unfit("a map of low and high is for search: random")
            raise unfit(f"a sweep has {MOST_TASKS} tasks at most; these are {size:g}")
        return self

    @property
    def values(self) -> dict[str, Values]:
        return {
            field: Interval(given.low, given.high, given.log) if isinstance(given, IntervalSpec) else given
            for field, given in self.vary.items()
        }

    @property
    def points(self) -> list[Point]:
        if self.search is Search.GRID:
            return grid(self.values)
        return drawn(self.values, self.most, self.seed)


def read_sweep(body: bytes, *, content_type: str = "") -> list[str]:
    """The texts of the tasks of a sweep, each with a name that tells its values.

    Args:
        body: YAML or JSON, as of a task.

    Raises:
        TooLarge, UnreadableSpec: As of `read_spec`.
        BadSpec: It is no sweep. Whether its tasks are tasks, `read_spec` says.
    """
    fields, _ = read_fields(body, content_type=content_type)
    own: dict[str, Any] = {name: fields.pop(name) for name in SweepSpec.model_fields if name in fields}
    try:
        sweep = checked(lambda: SweepSpec.model_validate(own))
    except BadInput as error:
        raise bad(error.detail["problems"]) from None
    return [_text(fields, point) for point in sweep.points]


def _text(fields: Mapping[str, Any], point: Point) -> str:
    name = " · ".join(filter(None, [str(fields.get("name") or ""), label_of(point)]))
    return with_values(fields, {**point, "name": name[:NAME_CHARS]})
