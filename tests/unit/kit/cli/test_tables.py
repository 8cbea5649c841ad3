"""What commands list: for eyes, or for programs."""

from __future__ import annotations

import json

import pytest
from rich.table import Table

from app.kit.cli.tables import print_lines, print_table, table_of

RECORDS = [{"name": "a" * 150, "size": 1}, {"name": "b", "size": 2}]


def sizes(records: list[dict[str, object]]) -> Table:
    table = table_of("name", "size")
    for record in records:
        table.add_row(str(record["name"]), str(record["size"]))
    return table


def test_a_pipe_takes_whole_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(RECORDS, sizes, "There is nothing.", as_json=False)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["name", "size"]
    assert (first.split(), second.split()) == (["a" * 150, "1"], ["b", "2"])


def test_lines_are_made_of_records(capsys: pytest.CaptureFixture[str]) -> None:
    print_lines(RECORDS, lambda record: f"{record['size']} bytes", "There is nothing.", as_json=False)
    assert capsys.readouterr().out == "1 bytes\n2 bytes\n"


def test_where_there_is_nothing_a_sentence_says_so_and_json_an_empty_list(capsys: pytest.CaptureFixture[str]) -> None:
    print_table([], sizes, "There is nothing.", as_json=False)
    print_lines([], str, "There is nothing.", as_json=False)
    assert capsys.readouterr().out == "There is nothing.\n" * 2
    print_table([], sizes, "There is nothing.", as_json=True)
    print_lines(RECORDS, str, "There is nothing.", as_json=True)
    assert capsys.readouterr().out == "[]\n" + json.dumps(RECORDS, indent=2) + "\n"
