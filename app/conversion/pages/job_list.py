"""What the list of jobs is asked for, and where its links lead: filter, order, page, saved views."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlencode

from pydantic import Field
from starlette.requests import Request

from app.conversion.job_index import Sort
from app.kit.web.http import FilterForm

LIST = "/ui/jobs"
TABLE = "/ui/sweeps/jobs"
"""Of the jobs that its address names, `job=…` each: a page of sweeps."""
PAGE_JOBS = 50
UUID_CHARS = 36
TEXT_MAX = 200
TABS = (
    ("all", ""),
    ("running", "status:running"),
    ("below", "verdict:below"),
    ("failed", "status:failed"),
)
"""A tab is a filter; its number is the number of jobs with this label."""
ASCENDING_FIRST = frozenset({Sort.NAME, Sort.TARGET, Sort.SNR, Sort.LATENCY, Sort.SIZE, Sort.STATUS})
"""Columns whose first click shows the least: there lies what one looks for, the worst SNR or the fastest model."""
UNDO = {"tagged": "untag", "untagged": "tag", "kept": "unkeep", "unkept": "keep"}
"""What takes back what a note says was done."""
COOKIE = "job_views"
VIEWS_MAX = 8
NAME_MAX = 40


class JobListQuery(FilterForm):
    """The list can be sorted by every column and opened at any page, so its pages have numbers: a cursor names a place
    in one order alone."""

    q: Annotated[str, Field(max_length=TEXT_MAX)] = ""
    status: Annotated[str, Field(max_length=40)] = ""
    """As `status:…` in the filter, where old links and programs have it; so has owner."""
    owner: Annotated[str, Field(max_length=100)] = ""
    sort: Sort = Sort.CREATED
    order: Literal["asc", "desc"] | None = None
    page: Annotated[int, Field(ge=1, le=100_000)] = 1
    seen: Annotated[str, Field(max_length=40)] = ""
    """When the newest job of the first page was created: later pages go on from it, whatever came meanwhile."""
    note: Literal["cancelled", "deleted", "restarted", "tagged", "untagged", "kept", "unkept", "undone"] | None = None
    count: Annotated[int, Field(ge=0)] = 1
    left: Annotated[int, Field(ge=0)] = 0
    """To how many it could not be done."""
    tag: Annotated[str, Field(max_length=50)] = ""
    """Which was added or removed."""
    done: Annotated[str, Field(max_length=PAGE_JOBS * (UUID_CHARS + 1))] = ""
    """The ids of the jobs that were changed, by commas: for the button that takes it back."""

    @property
    def text(self) -> str:
        """The filter as a whole."""
        terms = [f"{key}:{value}" for key, value in (("status", self.status), ("owner", self.owner)) if value]
        return " ".join([*self.q.split(), *terms])

    @property
    def is_descending(self) -> bool:
        return self.order == "desc" if self.order else self.sort not in ASCENDING_FIRST

    @property
    def undo(self) -> str:
        """What takes back what was done just now; '' where nothing was, or nothing does."""
        return UNDO.get(self.note or "", "") if self.done else ""

    @property
    def done_ids(self) -> Sequence[str]:
        return self.done.split(",")

    @property
    def offset(self) -> int:
        return (self.page - 1) * PAGE_JOBS

    @property
    def tab(self) -> str:
        """Which tab is open; '' when the filter is another one."""
        return next((name for name, text in TABS if text == self.text), "")

    @property
    def is_newest_first(self) -> bool:
        return self.sort is Sort.CREATED and self.is_descending

    def url(self, *, page: int = 1, seen: str = "") -> str:
        return self._url(self.sort, self.order, page, seen)

    def sorted_by(self, sort: Sort) -> str:
        """Where the click on a column leads: sorts by it, or the other way round."""
        if sort is not self.sort:
            return self._url(sort, None, 1)
        return self._url(sort, "asc" if self.is_descending else "desc", 1)

    def _url(self, sort: Sort, order: str | None, page: int, seen: str = "") -> str:
        fields = {
            "q": self.text,
            "sort": "" if sort is Sort.CREATED and not order else sort.value,
            "order": order or "",
            "page": "" if page == 1 else str(page),
            "seen": "" if page == 1 else seen,
        }
        return list_url(**fields)


def list_url(**fields: str) -> str:
    given = {name: value for name, value in fields.items() if value}
    return f"{LIST}?{urlencode(given)}" if given else LIST


@dataclass(frozen=True)
class SavedView:
    """A filter that a user gave a name. They lie in a cookie of this browser."""

    name: str
    text: str


def saved_views(request: Request) -> list[SavedView]:
    """Those of this browser; none if the cookie is not one of ours."""
    try:
        pairs = json.loads(base64.urlsafe_b64decode(request.cookies.get(COOKIE, "")) or b"[]")
        views = [SavedView(str(name)[:NAME_MAX], str(text)[:TEXT_MAX]) for name, text in pairs]
    except (binascii.Error, ValueError, TypeError):
        return []
    return views[:VIEWS_MAX]


def cookie_text(views: Sequence[SavedView]) -> str:
    """What saved_views reads."""
    text = json.dumps([(view.name, view.text) for view in views], ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode()
