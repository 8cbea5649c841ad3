"""Rows as files."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime

import pytest

from app.kit.errors import ExtraMissing
from app.results import exports
from app.results.exports import FORMS, csv_lines, parquet_pieces
from app.results.model.frame_result import FrameRecord

HREF = '=HYPERLINK("http://elsewhere.example")'
AT = "2026-11-22T08:00:00.000Z"


BY_PLAN = {"model_name": "faces", "model_version": 3, "plan": 7}


def test_csv_has_the_origin_of_a_row() -> None:
    row = {"n_loop": 1, "node": "edge0", "source": "door", "bbox": [[1, 2, 3, 4]], "labels": ["cat"], "scores": [0.5]}
    row |= {"ids": [12], **BY_PLAN}
    head, seen, none = csv_lines([FrameRecord(1, AT, row), FrameRecord(2, AT, {**row, "bbox": [], "labels": []})])
    assert head.endswith(",node,source,model_name,model_version,plan,keypoints,mask,id,stored_at\n")
    assert seen.endswith(",cat,0.5,1,2,3,4,edge0,door,faces,3,7,,,12,\n")
    assert none.endswith(",,,,,,,edge0,door,faces,3,7,,,,\n")


def test_a_row_of_a_wrong_clock_has_when_it_was_stored_with_and_without_objects() -> None:
    wrong, seen = "1970-01-01T00:00:07.000Z", {"bbox": [[1, 2, 3, 4]]}
    records = [FrameRecord(1, wrong, seen, AT), FrameRecord(2, wrong, {}, AT), FrameRecord(3, wrong, seen)]
    lines = list(csv.DictReader(csv_lines(records)))
    assert [(one["at"], one["stored_at"]) for one in lines] == [(wrong, AT), (wrong, AT), (wrong, "")]
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(io.BytesIO(b"".join(parquet_pieces(records))))
    moment = datetime(2026, 11, 22, 8, tzinfo=UTC)
    assert table["stored_at"].to_pylist() == [moment, moment, None]
    assert table["at"].to_pylist() == [datetime(1970, 1, 1, 0, 0, 7, tzinfo=UTC)] * 3


@pytest.mark.parametrize(
    ("key", "column", "points"),
    [("keypoints", "keypoints", [[1.5, 2, 0.9], [3, 4, 0.1]]), ("masks", "mask", [[1.5, 2, 3, 4, 5, 6, 7, 8]])],
)
def test_key_points_and_masks_are_columns_of_lists(key: str, column: str, points: list[list[float]]) -> None:
    row = {"bbox": [[1, 2, 3, 4], [5, 6, 7, 8]], key: [points, "odd"]}
    head, seen, other = csv.reader(csv_lines([FrameRecord(1, AT, row)]))
    place = head.index(column)
    assert (json.loads(seen[place]), other[place]) == (points, "")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pq.read_table(io.BytesIO(b"".join(parquet_pieces([FrameRecord(1, AT, row)]))))
    assert table[column].to_pylist() == [points, None]


def test_no_class_is_a_formula_to_a_spreadsheet() -> None:
    row = {"n_loop": 1, "bbox": [[-1.0, 2.0, 3.0, 4.0]], "labels": [HREF], "scores": [0.5]}
    _, line = csv_lines([FrameRecord(1, AT, row)])
    assert f'"\'{HREF.replace(chr(34), chr(34) * 2)}"' in line
    assert line.endswith("0.5,-1.0,2.0,3.0,4.0,,,,,,,,,\n"), "numbers are as they were"


def test_parquet_has_a_row_an_object_with_types_and_one_for_a_frame_without(monkeypatch: pytest.MonkeyPatch) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(exports, "GROUP", 2)
    two = {"bbox": [[1, 2, 3, 4], [5.5, 6, 7, 8]], "labels": ["car", HREF], "scores": [0.5, None], "pts": 2, "total": 2}
    two["ids"] = [7, None]
    of_service = {"bbox": [], "node": "edge0", "sample": "a1", "answered_by": "cloud", "is_hard": True, "pts": "odd"}
    of_service |= {"source": "door", **BY_PLAN}
    records = [FrameRecord(1, AT, two), FrameRecord(2, AT, of_service), FrameRecord(3, AT, {})]
    file = io.BytesIO(b"".join(parquet_pieces(records)))
    table = pq.read_table(file)
    assert pq.ParquetFile(file).num_row_groups == 2, "it is written bit by bit"
    first, second, third, fourth = table.to_pylist()
    assert (first["frame"], first["pts_s"], first["counts"], first["class"]) == (1, 2.0, [("total", 2.0)], "car")
    assert first["at"] == datetime(2026, 11, 22, 8, tzinfo=UTC)
    assert table["id"].to_pylist() == [7, None, None, None]
    assert (second["class"], second["score"], second["x1"], second["y2"]) == (HREF, None, 5.5, 8.0)
    assert (third["answered_by"], third["is_hard"], third["node"], third["sample"]) == ("cloud", True, "edge0", "a1")
    assert (third["source"], {name: third[name] for name in BY_PLAN}) == ("door", BY_PLAN)
    assert (third["pts_s"], third["class"], third["x1"]) == (None, None, None)
    assert (fourth["frame"], fourth["node"]) == (3, None)


def test_numbers_beyond_a_floats_break_no_file() -> None:
    row = {"bbox": [[1, 2, 3, 4]], "labels": ["car"], "scores": [10**400], "total": 10**400, "cars": 1, "pts": 10**400}
    row["plan"] = 10**400
    records = [FrameRecord(1, AT, row)]
    _, line = csv_lines(records)
    assert "cars=1,car,,1,2,3,4" in line
    if FORMS[-1].is_available:
        assert b"".join(parquet_pieces(records))


def test_no_rows_are_a_parquet_file_without_rows() -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    assert pq.read_table(io.BytesIO(b"".join(parquet_pieces([])))).num_rows == 0


def test_without_pyarrow_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "find_spec", lambda name: None)
    csv, jsonl, parquet = FORMS
    assert csv.is_available
    assert jsonl.is_available
    assert not parquet.is_available
    csv.check()
    with pytest.raises(ExtraMissing) as raised:
        parquet.check()
    assert "pip install 'modelmill[parquet]'" in raised.value.hint
