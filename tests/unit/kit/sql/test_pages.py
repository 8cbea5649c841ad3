"""A cursor names the last entry of a page, and leads to the next one."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from app.kit.errors import BadInput
from app.kit.sql.pages import cut_page, page_of, read_cursor

ENTRIES = [("2026-11-28", "c"), ("2026-11-28", "b"), ("2026-11-27", "a")]


@pytest.mark.parametrize(("limit", "cursor"), [(2, "2026-11-28~b"), (3, None), (9, None)])
def test_a_page_with_more_behind_it_has_a_cursor(limit: int, cursor: str | None) -> None:
    assert cut_page(ENTRIES[: limit + 1], limit, lambda entry: entry) == (ENTRIES[:limit], cursor)
    assert read_cursor(cursor) == (ENTRIES[1] if cursor else None)


@pytest.mark.parametrize("cursor", ["damaged", "a\0~b"])
def test_another_text_is_refused(cursor: str) -> None:
    with pytest.raises(BadInput, match="is no cursor"):
        read_cursor(cursor)


def test_pages_follow_each_other_also_where_times_are_equal() -> None:
    entries = sa.Table("entries", sa.MetaData(), sa.Column("at", sa.String), sa.Column("id", sa.String))
    engine = sa.create_engine("sqlite://")
    with engine.begin() as conn:
        entries.create(conn)
        conn.execute(sa.insert(entries), [{"at": at, "id": entry_id} for at, entry_id in reversed(ENTRIES)])
        keys = (entries.c.at, entries.c.id)
        first = conn.execute(page_of(sa.select(entries), keys, None, 2)).all()
        second = conn.execute(page_of(sa.select(entries), keys, ENTRIES[1], 2)).all()
    assert [tuple(row) for row in (*first, *second)] == ENTRIES
