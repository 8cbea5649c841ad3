"""The query of a list that is filtered, paged through by a cursor, and kept current by a fragment."""

from __future__ import annotations

from typing import Annotated, ClassVar
from urllib.parse import urlencode

from pydantic import Field

from app.kit.web.http import FilterForm


class ListQuery(FilterForm):
    """What every list understands. A capability adds its filters as fields, and says where its list is."""

    PAGE: ClassVar[str]
    """The URL of the list."""
    NO_FILTERS: ClassVar[frozenset[str]] = frozenset({"cursor", "seen", "note", "count"})
    """Fields that choose nothing: links to other pages of the list leave them out."""
    q: Annotated[str, Field(max_length=200)] | None = None
    """A text that a row has."""
    cursor: Annotated[str, Field(max_length=120)] | None = None
    """Where the page before ended."""
    seen: Annotated[str, Field(max_length=64)] = ""
    """What the page shows already, for the fragment that keeps it current."""

    @property
    def is_filtered(self) -> bool:
        return any(str(value) for value in self._filters().values())  # 0 filters, too

    def url(self, page: str = "", **further: str | None) -> str:
        """The list with the same filters.

        Args:
            page: in place of PAGE.
            further: what is added to the query; what is empty is left out.
        """
        fields = {**self._filters(), **{name: value for name, value in further.items() if value}}
        return f"{page or self.PAGE}?{urlencode(fields)}"

    def _filters(self) -> dict[str, str]:
        return self.model_dump(mode="json", exclude=set(self.NO_FILTERS), exclude_none=True)
