"""CSV from outside."""

from __future__ import annotations

import pytest

from app.kit.text.untrusted_csv import UnreadableCsv, read_records, read_rows


def test_rows_have_the_number_of_their_line() -> None:
    assert list(read_rows('a,b\r\n\r\n"c\nd",e\n')) == [(1, ["a", "b"]), (4, ["c\nd", "e"])]


def test_records_have_the_names_of_their_columns_whatever_a_row_lacks() -> None:
    columns, rows = read_records("a,b\n1\n2,3,4\n")
    assert (columns, list(rows)) == (["a", "b"], [(2, {"a": "1", "b": ""}), (3, {"a": "2", "b": "3"})])
    columns, rows = read_records("")
    assert (columns, list(rows)) == ([], [])


def test_a_field_that_is_too_long_is_refused_with_its_line() -> None:
    with pytest.raises(UnreadableCsv, match="line 2"):
        list(read_rows(f"a\n{'b' * 200_000}\n"))
