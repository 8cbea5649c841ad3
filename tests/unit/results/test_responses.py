"""Rows as a CSV."""

from __future__ import annotations

from app.results.endpoints import csv_lines
from app.results.model.frame_result import FrameRecord

HREF = '=HYPERLINK("http://elsewhere.example")'


def test_no_class_is_a_formula_to_a_spreadsheet() -> None:
    row = {"n_loop": 1, "bbox": [[-1.0, 2.0, 3.0, 4.0]], "labels": [HREF], "scores": [0.5]}
    _, line = csv_lines([FrameRecord(1, "2026-11-22T08:00:00.000Z", row)])
    assert f'"\'{HREF.replace(chr(34), chr(34) * 2)}"' in line
    assert line.endswith("0.5,-1.0,2.0,3.0,4.0\n"), "numbers are as they were"
