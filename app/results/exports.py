"""Rows as files: CSV, JSON Lines and Parquet, written piece by piece."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any

from app.kit.errors import ExtraMissing
from app.kit.text.json_values import JsonObject
from app.kit.text.plain_text import csv_text
from app.results.model.frame_result import FrameRecord, is_number

if TYPE_CHECKING:
    import pyarrow as pa

ORIGIN: Mapping[str, type] = {"node": str, "source": str, "model_name": str, "model_version": int, "plan": int}
"""Facts of where a row comes from, by their types."""
CSV_COLUMNS = (
    *("frame", "at", "pts_s", "tracked", "counts", "class", "score", "x1", "y1", "x2", "y2"),
    *ORIGIN,
    *("keypoints", "mask", "id", "stored_at"),
)
MOST_INTEGER = 1 << 63
"""Parquet has 64 bits for one."""
GROUP = 20_000
"""Frames in a row group of a Parquet file, which are in memory together."""


@dataclass(frozen=True)
class ExportForm:
    """A file format of rows."""

    ending: str
    media_type: str
    summary: str
    """Description in the API's document."""
    write: Callable[[Iterable[FrameRecord]], Iterator[str] | Iterator[bytes]]
    needs_extra: bool = False
    """True for parquet, which needs PyArrow."""

    @property
    def is_available(self) -> bool:
        return not self.needs_extra or find_spec("pyarrow") is not None

    def check(self) -> None:
        """Checks that the format can be written.

        Raises:
            ExtraMissing: A library is missing.
        """
        if not self.is_available:
            hint = "On the web server: pip install 'modelmill[parquet]'. CSV and JSONL need nothing."
            raise ExtraMissing("PyArrow, which writes Parquet, is not installed here.", hint=hint)


def csv_lines(records: Iterable[FrameRecord]) -> Iterator[str]:
    """Yields a line for each object; for a frame without objects, one line without a box."""
    yield _write_csv_line(CSV_COLUMNS)
    for record in records:
        counts = " ".join(f"{name}={value:g}" for name, value in record.counts.items())
        origin = ["" if value is None else value for value in _describe_origin(record.row).values()]
        facts = (record.n_loop, record.at, record.row.get("pts", ""), bool(record.row.get("tracked")), counts)
        for one in record.objects:
            score = "" if one.score is None else one.score
            details = [json.dumps(rows, separators=(",", ":")) if rows else "" for rows in (one.keypoints, one.mask)]
            track_id = "" if one.track_id is None else one.track_id
            cells = (one.label, score, *one.box, *origin, *details, track_id, record.stored_at)
            yield _write_csv_line((*facts, *cells))
        if not record.objects:
            yield _write_csv_line((*facts, *[""] * 6, *origin, "", "", "", record.stored_at))


def jsonl_lines(records: Iterable[FrameRecord]) -> Iterator[str]:
    for record in records:
        yield json.dumps(vars(record)) + "\n"


def parquet_pieces(records: Iterable[FrameRecord]) -> Iterator[bytes]:
    """Yields a row for each object, as in CSV, but with types and additional fields of services."""
    schema, sink, remaining = _build_schema(), _Sink(), iter(records)
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        while frames := list(islice(remaining, GROUP)):
            writer.write_table(
                pa.Table.from_pylist([row for frame in frames for row in _iterate_objects(frame)], schema)
            )
            yield sink.taken()
    yield sink.taken()


def _iterate_objects(record: FrameRecord) -> Iterator[JsonObject]:
    row = record.row
    facts = {
        "frame": record.n_loop,
        "at": datetime.fromisoformat(record.at),
        "pts_s": _as(float, row.get("pts")),
        "tracked": bool(row.get("tracked")),
        "counts": [(name, float(value)) for name, value in record.counts.items()],
        **_describe_origin(row),
        "sample": _as(str, row.get("sample")),
        "answered_by": _as(str, row.get("answered_by")),
        "is_hard": _as(bool, row.get("is_hard")),
        "stored_at": datetime.fromisoformat(record.stored_at) if record.stored_at else None,
    }
    for one in record.objects:
        x1, y1, x2, y2 = map(float, one.box)
        score = None if one.score is None else float(one.score)
        keypoints, mask = ([list(map(float, row)) for row in rows] or None for rows in (one.keypoints, one.mask))
        place = {"x1": x1, "y1": y1, "x2": x2, "y2": y2, "keypoints": keypoints, "mask": mask}
        place["id"] = _as(int, one.track_id)
        yield {**facts, "class": one.label, "score": score, **place}
    if not record.objects:
        yield facts


def _describe_origin(row: Mapping[str, Any]) -> JsonObject:
    return {name: _as(kind, row.get(name)) for name, kind in ORIGIN.items()}


def _as(kind: type, value: object) -> Any:
    """Returns None for a value of another type, since a report may contain anything."""
    if kind is float:
        return float(value) if is_number(value) else None
    if kind is int:
        return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < MOST_INTEGER else None
    return value if isinstance(value, kind) else None


@cache
def _build_schema() -> pa.Schema:
    import pyarrow as pa

    number, integer, text, flag, time = pa.float64(), pa.int64(), pa.string(), pa.bool_(), pa.timestamp("ms", "UTC")
    named = {"frame": pa.int64(), "at": time, "pts_s": number, "tracked": flag}
    named |= {"counts": pa.map_(text, number), "class": text, "score": number}
    named |= dict.fromkeys(("x1", "y1", "x2", "y2"), number)
    named |= dict.fromkeys(("node", "source", "sample", "answered_by"), text) | {"is_hard": flag}
    named |= {"model_name": text, "model_version": integer, "plan": integer}
    named |= dict.fromkeys(("keypoints", "mask"), pa.list_(pa.list_(number)))
    return pa.schema(named | {"id": integer, "stored_at": time})


class _Sink(io.RawIOBase):
    """Collects what a writer has written since it was last taken."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._size += len(piece)
        return len(piece)

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)


def _write_csv_line(values: Iterable[object]) -> str:
    return csv_text([values], line_end="\n")


FORMS = (
    ExportForm("csv", "text/csv", "Get the stored rows as CSV, one line per object", csv_lines),
    ExportForm("jsonl", "application/jsonl", "Get the stored rows as JSON Lines, one line per frame", jsonl_lines),
    ExportForm(
        "parquet",
        "application/vnd.apache.parquet",
        "Get the stored rows as Parquet, one row per object",
        parquet_pieces,
        True,
    ),
)
