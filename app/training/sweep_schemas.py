"""What the JSON API takes and answers about sweeps. Extra keys are allowed; those named here hold."""

from __future__ import annotations

from pydantic import BaseModel, Field, JsonValue

from app.kit.web.strict import Strict
from app.training.model import State
from app.training.model.sweep import Search
from app.training.schemas import ChangeAnswer, FieldName, PointAnswer
from app.training.spec import TaskSpec
from app.training.spec.sweeps import SweepSpec


class NewTaskSweep(TaskSpec, SweepSpec):
    """A task, and the fields that differ between the tasks of a sweep."""


class SweepAgain(Strict):
    set: dict[FieldName, JsonValue] = Field(default_factory=dict, max_length=200)
    """New values of fields, nested ones with a dot, such as vary.total_epochs; null removes a field."""


class SweepTaskAnswer(BaseModel):
    task_id: str
    name: str
    state: State
    values: dict[str, JsonValue]
    """By field, of those that differ; null where it is not said."""
    best: PointAnswer | None
    """Its best of the metric; null while it has told none."""
    is_best: bool
    """No other task of the sweep has a better one."""
    is_stopped_early: bool
    """Its metric was behind that of others, and it was stopped."""


class SweepAnswer(BaseModel):
    sweep_id: str
    name: str
    search: Search
    created_at: str
    is_open: bool
    """Tasks are to be added, or have not ended."""
    remark: str
    """Why no more tasks are added; empty: more are, or all are there."""
    size: int
    """How many tasks it has in the end, at most."""
    concurrency: int | None
    """How many of them wait or run at once; null: all."""
    fields: list[str]
    """Those that differ between its tasks."""
    metric: str
    """What they are compared by: best_metric, else a validation, a reward or the loss; empty: none was told."""
    tasks: list[SweepTaskAnswer]
    """In the order of submission."""


class SweepAgainAnswer(SweepAnswer):
    changes: list[ChangeAnswer]
    """What is not as in the sweep that it was made of."""


class SweepsAnswer(BaseModel):
    sweeps: list[SweepAnswer]
    """The last ones, the newest first; of their tasks that run no values."""
