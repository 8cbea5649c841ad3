"""Rows as the JSON API shows them and as files hold them. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator

from app.kit.text.csv_cell import csv_cell
from app.results import schemas
from app.results.model.frame_result import FrameRecord
from app.results.service import ResultPage


def rows(page: ResultPage) -> schemas.RowsAnswer:
    return schemas.RowsAnswer(
        rows=[schemas.RowAnswer(n_loop=one.n_loop, at=one.at, row=dict(one.row)) for one in page.records],
        next_cursor=page.cursor,
    )


CSV_COLUMNS = ("frame", "at", "pts_s", "tracked", "counts", "class", "score", "x1", "y1", "x2", "y2")


def csv_lines(records: Iterable[FrameRecord]) -> Iterator[str]:
    """A line an object; one without a box for a frame that has none."""
    yield _csv_line(CSV_COLUMNS)
    for record in records:
        counts = " ".join(f"{name}={value:g}" for name, value in record.counts.items())
        facts = (record.n_loop, record.at, record.row.get("pts", ""), bool(record.row.get("tracked")), counts)
        for one in record.objects:
            yield _csv_line((*facts, one.label, "" if one.score is None else one.score, *one.box))
        if not record.objects:
            yield _csv_line((*facts, *[""] * 6))


def jsonl_lines(records: Iterable[FrameRecord]) -> Iterator[str]:
    for record in records:
        yield json.dumps({"n_loop": record.n_loop, "at": record.at, "row": dict(record.row)}) + "\n"


def _csv_line(values: Iterable[object]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow(map(csv_cell, values))
    return out.getvalue()
