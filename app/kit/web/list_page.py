"""The query of a page: what it shows, and the fragment that updates it; of a list also filters, and pagination by a
cursor."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar
from urllib.parse import urlencode

from pydantic import BaseModel, Field

from app.kit.web.http import FilterForm
from app.kit.web.strict import TEXT


class ViewQuery(BaseModel):
    """Common parameters of a page that has a usual view."""

    seen: Annotated[str, Field(max_length=64)] = ""
    """What the page already shows, for the fragment that updates it."""

    def url(self, page: str, **change: Any) -> str:
        """The same page with something changed; what is usual is omitted."""
        usual = type(self)().model_dump()
        values = {**self.model_dump(exclude={"seen"}), **change}
        kept = {name: value for name, value in values.items() if value != usual.get(name)}
        return f"{page}?{urlencode(kept)}" if kept else page


class ListQuery(FilterForm):
    """Common parameters of every list. A capability adds its filters as fields, and sets the URL of the list."""

    PAGE: ClassVar[str]
    """The URL of the list."""
    NO_FILTERS: ClassVar[frozenset[str]] = frozenset({"cursor", "seen", "note", "count"})
    """Fields that filter nothing: links to other pages of the list omit them."""
    q: Annotated[str, Field(max_length=200, pattern=TEXT)] | None = None
    """A text that a row contains."""
    cursor: Annotated[str, Field(max_length=120)] | None = None
    """The end of the previous page."""
    seen: Annotated[str, Field(max_length=64)] = ""
    """What the page already shows, for the fragment that updates it."""

    @property
    def is_filtered(self) -> bool:
        return any(str(value) for value in self._list_filters().values())  # 0 is a filter, too

    def url(self, page: str = "", **further: str | None) -> str:
        """Returns the URL of the list with the same filters.

        Args:
            page: replaces PAGE.
            further: additions to the query; empty values are omitted.
        """
        fields = {**self._list_filters(), **{name: value for name, value in further.items() if value}}
        return f"{page or self.PAGE}?{urlencode(fields)}"

    def _list_filters(self) -> dict[str, str]:
        return self.model_dump(mode="json", exclude=set(self.NO_FILTERS), exclude_none=True)
