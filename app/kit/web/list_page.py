"""The query of a list: filters, pagination by a cursor, and a fragment that updates it."""

from __future__ import annotations

from typing import Annotated, ClassVar
from urllib.parse import urlencode

from pydantic import Field

from app.kit.web.http import FilterForm


class ListQuery(FilterForm):
    """Common parameters of every list. A capability adds its filters as fields, and sets the URL of the list."""

    PAGE: ClassVar[str]
    """The URL of the list."""
    NO_FILTERS: ClassVar[frozenset[str]] = frozenset({"cursor", "seen", "note", "count"})
    """Fields that filter nothing: links to other pages of the list omit them."""
    q: Annotated[str, Field(max_length=200)] | None = None
    """A text that a row contains."""
    cursor: Annotated[str, Field(max_length=120)] | None = None
    """The end of the previous page."""
    seen: Annotated[str, Field(max_length=64)] = ""
    """What the page already shows, for the fragment that updates it."""

    @property
    def is_filtered(self) -> bool:
        return any(str(value) for value in self._filters().values())  # 0 is a filter, too

    def url(self, page: str = "", **further: str | None) -> str:
        """Returns the URL of the list with the same filters.

        Args:
            page: replaces PAGE.
            further: additions to the query; empty values are omitted.
        """
        fields = {**self._filters(), **{name: value for name, value in further.items() if value}}
        return f"{page or self.PAGE}?{urlencode(fields)}"

    def _filters(self) -> dict[str, str]:
        return self.model_dump(mode="json", exclude=set(self.NO_FILTERS), exclude_none=True)
