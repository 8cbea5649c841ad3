"""Rows that an edge worker has answered, off the wire."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from app.joint_inference.model.tally import MOST_ROWS
from app.kit.text.json_values import JsonObject
from app.kit.web.described_type import DescribedType
from app.kit.web.http import checked
from app.nodes.wire import read
from app.results.model.frame_result import Row


class RowReport(BaseModel):
    run: Annotated[str, Field(min_length=1, max_length=64, pattern="^[0-9a-zA-Z_-]+$")]
    """Which start of which worker they are of."""
    batch: Annotated[int, Field(ge=1, le=(1 << 31) - 1)]
    """Rises with each report of a run."""
    rows: Annotated[list[Annotated[JsonObject, DescribedType(Row)]], Field(max_length=MOST_ROWS)]
    """Oldest first."""


def read_rows(body: bytes) -> RowReport:
    """Reads what a worker reports.

    Raises:
        BadFrame: It is no JSON object.
        BadInput: It has another form.
    """
    report = read(body)
    return checked(lambda: RowReport.model_validate(report))
