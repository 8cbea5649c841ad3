"""Pages of lists that are ordered by a time and an id: a cursor names the last entry of a page by both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import Column, Select

from app.kit.errors import BadInput

Entry = TypeVar("Entry")
Place = tuple[str, str]
"""The time and the id of an entry."""


def read_cursor(cursor: str | None, separator: str = "~") -> Place | None:
    """Returns the place after which a page begins; None: the first page.

    Raises:
        BadInput: The cursor was not made by `cut_page`.
    """
    if not cursor:
        return None
    at, is_separated, entry_id = cursor.partition(separator)
    if not is_separated or not cursor.isprintable():
        raise BadInput(f"{cursor[:64]!r} is no cursor.", hint="Take next_cursor of the page before.")
    return at, entry_id


def page_of(query: Select[Any], keys: tuple[Column[str], Column[str]], before: Place | None, limit: int) -> Select[Any]:
    """Returns the query of a page of a list, newest first.

    Args:
        query: of the whole list.
        keys: the columns of the time and the id.
        before: the place after which the page begins; None: the first page.
        limit: how many rows at most.
    """
    if before is not None:
        query = query.where(sa.tuple_(*keys) < sa.tuple_(*map(sa.literal, before)))
    return query.order_by(*(key.desc() for key in keys)).limit(limit)


def cut_page(
    entries: list[Entry], limit: int, place_of: Callable[[Entry], Place], separator: str = "~"
) -> tuple[list[Entry], str | None]:
    """Returns a page, and the cursor of the next one; None: this was the last.

    Args:
        entries: one more than the limit, if there are so many.
        limit: how many a page has at most.
        place_of: the time and the id of an entry.
        separator: of the two in the cursor.
    """
    return entries[:limit], separator.join(place_of(entries[limit - 1])) if len(entries) > limit else None
