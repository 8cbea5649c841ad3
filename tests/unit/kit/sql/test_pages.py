"""A cursor names the last entry of a page, and leads to the next one."""

from __future__ import annotations

import pytest

from app.kit.errors import BadInput
from app.kit.sql.pages import cut_page, read_cursor

ENTRIES = [("2026-11-28", "c"), ("2026-11-28", "b"), ("2026-11-27", "a")]


@pytest.mark.parametrize(("limit", "cursor"), [(2, "2026-11-28~b"), (3, None), (9, None)])
def test_a_page_with_more_behind_it_has_a_cursor(limit: int, cursor: str | None) -> None:
    assert cut_page(ENTRIES[: limit + 1], limit, lambda entry: entry) == (ENTRIES[:limit], cursor)
    assert read_cursor(cursor) == (ENTRIES[1] if cursor else None)


@pytest.mark.parametrize("cursor", ["damaged", "a\0~b"])
def test_another_text_is_refused(cursor: str) -> None:
    with pytest.raises(BadInput, match="is no cursor"):
        read_cursor(cursor)
