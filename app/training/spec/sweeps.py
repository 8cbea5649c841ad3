"""The document of a sweep: a task, and the fields that differ between its tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Discriminator, Field, JsonValue, Tag, model_validator

from app.kit.errors import BadInput
from app.kit.text.json_values import JsonObject
from app.kit.web.http import checked
from app.training.model.learning_curve import is_lower_better
from app.training.model.sweep import (
    MOST_TASKS,
    EarlyStop,
    Goal,
    Interval,
    Point,
    Search,
    Values,
    draw_points,
    grid,
    label_of,
    size_of,
)
from app.training.spec.changes import with_values
from app.training.spec.document import bad, read_fields, read_spec
from app.training.spec.fields import Frozen, TaskSpec
from app.training.spec.texts import Line, unfit

NAME_CHARS = 200
VARY = "vary"
"""The field that makes a sweep of a task."""
OPTUNA_CONCURRENCY = 4


class IntervalSpec(Frozen):
    low: int | float
    high: int | float
    log: bool = False

    @model_validator(mode="after")
    def _is_an_interval(self) -> IntervalSpec:
        if not (self.low < self.high and (self.low > 0 or not self.log)):
            raise unfit("low must be below high, and above zero if log is true")
        return self

    @property
    def interval(self) -> Interval:
        is_whole = isinstance(self.low, int) and isinstance(self.high, int)
        return Interval(self.low, self.high, self.log, is_whole)


class EarlyStopSpec(Frozen):
    min_steps: Annotated[int, Field(ge=1, le=1_000_000_000)]
    """The first comparison; the next ones are at this many steps times reduction_factor, its square and so on."""
    reduction_factor: Annotated[int, Field(ge=2, le=10)] = 3
    """The best one of so many tasks goes on; the others are stopped."""


def _kind_of(given: Any) -> str:
    return "map" if isinstance(given, dict | IntervalSpec) else "list"


_ListSpec = Annotated[list[JsonValue], Field(min_length=1, max_length=MOST_TASKS), Tag("list")]


class SweepSpec(Frozen):
    """What a sweep says beside the fields of a task."""

    vary: Annotated[
        dict[str, Annotated[_ListSpec | Annotated[IntervalSpec, Tag("map")], Discriminator(_kind_of)]],
        Field(min_length=1, max_length=10),
    ]
    """By field, as total_epochs, overrides.trainer.seed or args.lr (a program's argument --lr=…), a list of values;
    for random and optuna also a map of low and high, with log: true for orders of magnitude. Whole ends stand for whole
    numbers."""
    search: Annotated[Search, Field(strict=False)] = Search.GRID
    """grid: every combination; random: so many at random; optuna: each next one where the results so far are best."""
    most: Annotated[int, Field(ge=1, le=MOST_TASKS)] = 10
    """random, optuna: how many tasks."""
    seed: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    """random, optuna: the same seed draws the same values."""
    concurrency: Annotated[int, Field(ge=1, le=MOST_TASKS)] | None = None
    """How many of its tasks wait or run at once; the next ones are added as these end. Without it all of them, for
    optuna four."""
    metric: Line | None = None
    """What tasks are compared by, like val/loss; without it best_metric of the task, else a validation, the reward or
    the loss."""
    goal: Annotated[Goal, Field(strict=False)] | None = None
    """minimize or maximize the metric; without it as its name tells."""
    early_stop: EarlyStopSpec | None = None
    """Stop tasks whose metric is worse than that of others at the same step (ASHA)."""

    @model_validator(mode="after")
    def _has_a_size(self) -> SweepSpec:
        size = size_of(self.values)
        if self.search is Search.GRID and any(isinstance(values, Interval) for values in self.values.values()):
            raise unfit("a map of low and high is for search: random or optuna")
        if self.search is Search.GRID and size > MOST_TASKS:
            raise unfit(f"a sweep has {MOST_TASKS} tasks at most; these are {size:g}")
        if self.goal is not None and self.metric is None:
            raise unfit("a goal needs a metric")
        if self.metric is not None and self.goal is None and is_lower_better(self.metric) is None:
            raise unfit("the name of the metric does not tell whether less of it is better: set goal")
        return self

    @property
    def values(self) -> dict[str, Values]:
        return {
            field: given.interval if isinstance(given, IntervalSpec) else given for field, given in self.vary.items()
        }


@dataclass(frozen=True)
class SweepDocument:
    """A sweep as it was submitted, and the fields that its tasks share."""

    text: str
    spec: SweepSpec
    fields: Mapping[str, Any]

    @property
    def all_fields(self) -> JsonObject:
        """What its tasks share, and what makes a sweep of them."""
        return {**self.fields, **self.spec.model_dump(mode="json", exclude_defaults=True)}

    @property
    def size(self) -> int:
        """How many tasks it has in the end, at most."""
        size = size_of(self.spec.values)
        return int(size) if self.spec.search is Search.GRID else int(min(size, self.spec.most))

    @property
    def concurrency(self) -> int:
        if self.spec.concurrency is not None:
            return self.spec.concurrency
        return OPTUNA_CONCURRENCY if self.spec.search is Search.OPTUNA else MOST_TASKS

    @property
    def points(self) -> list[Point]:
        """Of its tasks; for optuna those with which a search may begin."""
        if self.spec.search is Search.GRID:
            return grid(self.spec.values)
        return draw_points(self.spec.values, self.spec.most, self.spec.seed)

    @property
    def metric(self) -> str:
        """As it is named; "": it is not."""
        return self.spec.metric or str(self.fields.get("best_metric") or "")

    @property
    def early_stop(self) -> EarlyStop | None:
        given = self.spec.early_stop
        return EarlyStop(given.min_steps, given.reduction_factor) if given else None

    def is_lower_better(self, metric: str) -> bool | None:
        if self.spec.goal is not None:
            return self.spec.goal is Goal.MINIMIZE
        return is_lower_better(metric)

    def task_text(self, point: Point) -> str:
        """The text of the task with these values, with a name that tells them."""
        name = " · ".join(filter(None, [str(self.fields.get("name") or ""), label_of(point)]))
        return with_values(self.fields, {**point, "name": name[:NAME_CHARS]})


def read_sweep(body: bytes) -> SweepDocument:
    """Reads a sweep.

    Args:
        body: YAML or JSON, as of a task.

    Raises:
        TooLarge, UnreadableSpec: As of `read_spec`.
        BadSpec: It is no sweep. Whether its tasks are tasks, `read_spec` says.
    """
    fields, text = read_fields(body)
    own: JsonObject = {name: fields.pop(name) for name in SweepSpec.model_fields if name in fields}
    try:
        spec = checked(lambda: SweepSpec.model_validate(own))
    except BadInput as error:
        raise bad(error.detail["problems"]) from None
    document = SweepDocument(text, spec, fields)
    if not document.metric and (spec.search is Search.OPTUNA or spec.early_stop is not None):
        raise bad([{"at": "metric", "problem": "optuna and early_stop need to know what tasks are compared by"}])
    return document


def read_task_or_sweep(body: bytes) -> tuple[TaskSpec, str, SweepDocument | None]:
    """A task, or the first task of a sweep, the text, and the sweep. See `read_spec` and `read_sweep`."""
    fields, text = read_fields(body)
    if VARY not in fields:
        return (*read_spec(body), None)
    document = read_sweep(body)
    specs = [read_spec(document.task_text(point).encode())[0] for point in document.points]
    return specs[0], text, document
