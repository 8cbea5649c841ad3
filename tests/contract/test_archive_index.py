"""The search of the archive, on both databases."""

from __future__ import annotations

import pytest

from app.conversion import archive_index as index
from app.conversion.archive_index import ArchiveFilter
from app.conversion.archive_schemas import ArchivedJobRow
from app.kit.sql import Database
from tests.harness.databases import database, empty, url

__all__ = ["database", "empty", "url"]
AT = "2026-11-20T08:00:00.000Z"


def row(job_id: str, *tags: str, name: str = "") -> ArchivedJobRow:
    return ArchivedJobRow(job_id, "ada", name, tags, "", "host", "", "", None, AT, AT, 1.0, 0, is_kept=False)


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("Night", {"b"}),
        ("FACES", {"a"}),
        ('say "no"', {"b"}),
        ("back\\slash", {"b"}),
        ("100%_", {"a"}),
        ('"', {"b"}),
        ("\\", {"b"}),
        ("[x]", {"c"}),
        ("]", {"c"}),
        (", ", set()),
        ("%", {"a"}),
        ("標", {"c"}),
    ],
)
def test_a_text_is_matched_in_names_and_tags_and_not_between_them(
    database: Database, text: str, matches: set[str]
) -> None:
    with database.write() as conn:
        index.put(conn, row("a", name="faces 100%_"))
        index.put(conn, row("b", 'say "no"', "back\\slash", "nightly"))
        index.put(conn, row("c", "[x]", "標籤"))
        index.put(conn, row("d", "y"))
    with database.read() as conn:
        rows = index.page(conn, "ada", ArchiveFilter(text=text), limit=9)
    assert {entry.job_id for entry in rows} == matches


@pytest.mark.parametrize(("tag", "is_match"), [("NIGHTLY", True), ("night", False), ('say "no"', True)])
def test_a_tag_is_matched_as_a_whole(database: Database, tag: str, is_match: bool) -> None:
    with database.write() as conn:
        index.put(conn, row("a", "nightly", 'say "no"'))
    with database.read() as conn:
        assert bool(index.page(conn, "ada", ArchiveFilter(tag=tag), limit=9)) is is_match
