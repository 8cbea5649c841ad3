"""CSV from outside: whatever is wrong with it raises one kind of error, which names the line."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator


class UnreadableCsv(ValueError):
    """The text is not CSV, or a field of it is too long."""


def read_rows(text: str) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows that are not empty, each with the number of its last line, from 1.

    Raises:
        UnreadableCsv: Raised at the row that cannot be read.
    """
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if any(row):
                yield reader.line_num, row
    except csv.Error as error:
        raise UnreadableCsv(f"line {reader.line_num}: {error}") from None


def read_records(text: str) -> tuple[list[str], Iterator[tuple[int, dict[str, str]]]]:
    """Reads a table with a heading.

    Returns:
        The names of its columns, and its rows by name, as read_rows. What is missing at a row's end is empty.

    Raises:
        UnreadableCsv: The heading cannot be read, or later a row.
    """
    rows = read_rows(text)
    _, columns = next(rows, (0, []))
    empty = dict.fromkeys(columns, "")
    return columns, ((line, empty | dict(zip(columns, row, strict=False))) for line, row in rows)
