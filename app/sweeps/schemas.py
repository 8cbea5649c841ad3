"""The JSON that goes in and out of the API of sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.responses import Response

from app.conversion.options import Options
from app.conversion.schemas import Key, Tags
from app.conversion.service.batches import BatchModel, Variant
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import csv_text
from app.kit.web.described_type import DescribedType
from app.kit.web.downloads import CSV, text_file
from app.kit.web.http import answer_of
from app.kit.web.strict import TEXT, Strict
from app.sweeps.model import RowAnswer, Sweep
from app.sweeps.service import SweepView

SWEEPS = "/sweeps"
Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=80, pattern=TEXT)]
CURSOR = r"^[0-9TZ:.-]{20,32} [0-9a-f]{32}$"


class ModelBody(Strict):
    name: Name
    """Name of the model in the rows of the table."""
    model_key: Key
    quant_key: Key
    options: Annotated[JsonObject, DescribedType(Options)] = Field(default_factory=dict)
    """Options that all jobs of this model share."""


class VariantBody(Strict):
    name: Name
    """Name of the set of options in the rows of the table."""
    options: Annotated[JsonObject, DescribedType(Options)] = Field(default_factory=dict)
    """Changes of the options of each model; nested objects are merged."""


class NewSweep(Strict):
    """Body of POST /sweeps: every model with every set of options."""

    name: Annotated[str, StringConstraints(strip_whitespace=True, max_length=200, pattern=TEXT)] = ""
    tags: Tags = ()
    no_cache: bool = False
    """Whether every stage is run, even if its result is in the cache."""
    models: Annotated[tuple[ModelBody, ...], Field(min_length=1, max_length=50)]
    options: Annotated[tuple[VariantBody, ...], Field(min_length=1, max_length=50)]

    def parts(self) -> tuple[list[BatchModel], list[Variant]]:
        models = [BatchModel(each.name, each.model_key, each.quant_key, each.options) for each in self.models]
        return models, [Variant(each.name, each.options) for each in self.options]


class SweepsQuery(Strict):
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    cursor: Annotated[str, Field(pattern=CURSOR)] | None = None
    """next_cursor of the previous page."""


class SweepAnswer(BaseModel):
    sweep_id: str
    name: str
    tags: list[str]
    created_at: str
    no_cache: bool
    has_ended: bool
    rows: tuple[RowAnswer, ...]


class ListedSweep(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)
    sweep_id: str
    name: str
    tags: list[str]
    created_at: str
    no_cache: bool
    counts: dict[str, int]
    """Number of its jobs by state: PENDING, SUBMITTED, REFUSED, CANCELLED, ENDED."""


class SweepsAnswer(BaseModel):
    sweeps: list[ListedSweep]
    next_cursor: str | None


def sweep_answer(view: SweepView) -> SweepAnswer:
    return answer_of(SweepAnswer, view.sweep, view)


def describe_sweep(sweep: Sweep, counts: dict[str, int]) -> ListedSweep:
    return answer_of(ListedSweep, sweep, counts=counts)


def csv_answer(table: Sequence[Sequence[object]], file_name: str) -> Response:
    """A table as a file to download."""
    return text_file(csv_text(table), file_name, CSV)


def table_of(rows: tuple[RowAnswer, ...]) -> list[list[Any]]:
    """The table as rows of a CSV file, its head first."""
    names = [name for name in RowAnswer.__dataclass_fields__ if name != "error"]  # problem says it in a cell
    return [names, *([getattr(row, name) for name in names] for row in rows)]
