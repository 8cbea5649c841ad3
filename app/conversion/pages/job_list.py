"""The parameters of the list of jobs (filter, order, page, saved views) and the URLs of its links."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlencode

from pydantic import Field
from starlette.requests import Request

from app.conversion.job_index import Sort
from app.kit.text.untrusted_json import read_json
from app.kit.web.http import FilterForm

LIST, ARCHIVE = "/ui/jobs", "/ui/archive"
TABLE = "/ui/sweeps/jobs"
"""The list of the jobs that its URL names, `job=…` each: a page of sweeps."""
PAGE_JOBS = 50
UUID_CHARS = 36
TEXT_MAX = 200
TABS = (
    ("all", ""),
    ("running", "status:running"),
    ("below", "verdict:below"),
    ("failed", "status:failed"),
)
"""Each tab is a filter; the number on it counts the jobs with this label."""
ASCENDING_FIRST = frozenset({Sort.NAME, Sort.TARGET, Sort.SNR, Sort.LATENCY, Sort.SIZE, Sort.STATUS})
"""Columns that a first click sorts in ascending order, since the lowest values matter: the worst SNR, the fastest
model."""
UNDO = {"tagged": "untag", "untagged": "tag", "kept": "unkeep", "unkept": "keep"}
"""The action that reverses the one which a note reports."""
COOKIE = "job_views"
VIEWS_MAX = 8
NAME_MAX = 40


class ActionReport(FilterForm):
    """The parameters by which a list reports what was done with the selected jobs."""

    note: Literal["cancelled", "deleted", "restarted", "tagged", "untagged", "kept", "unkept", "undone"] | None = None
    count: Annotated[int, Field(ge=0)] = 1
    left: Annotated[int, Field(ge=0)] = 0
    """For how many jobs the action was not possible."""
    done_tag: Annotated[str, Field(max_length=50)] = ""
    """The tag that was added or removed."""
    done: Annotated[str, Field(max_length=PAGE_JOBS * (UUID_CHARS + 1))] = ""
    """Ids of the changed jobs, separated by commas, for the button that reverses the change."""

    @property
    def undo(self) -> str:
        """Returns the action that reverses the last one; empty if there is none."""
        return UNDO.get(self.note or "", "") if self.done else ""

    @property
    def done_ids(self) -> Sequence[str]:
        return self.done.split(",")


class JobListQuery(ActionReport):
    """The parameters of the list. Its pages have numbers instead of cursors, since the list can be sorted by every
    column."""

    q: Annotated[str, Field(max_length=TEXT_MAX)] = ""
    status: Annotated[str, Field(max_length=40)] = ""
    """Same as `status:…` in the filter, for old links and programs, as is owner."""
    owner: Annotated[str, Field(max_length=100)] = ""
    sort: Sort = Sort.CREATED
    order: Literal["asc", "desc"] | None = None
    page: Annotated[int, Field(ge=1, le=100_000)] = 1
    seen: Annotated[str, Field(max_length=40)] = ""
    """When the newest job of the first page was created: later pages continue from it, even if newer jobs have come
    since."""

    @property
    def text(self) -> str:
        """Returns the whole filter as text."""
        terms = [f"{key}:{value}" for key, value in (("status", self.status), ("owner", self.owner)) if value]
        return " ".join([*self.q.split(), *terms])

    @property
    def is_descending(self) -> bool:
        return self.order == "desc" if self.order else self.sort not in ASCENDING_FIRST

    @property
    def offset(self) -> int:
        return (self.page - 1) * PAGE_JOBS

    @property
    def tab(self) -> str:
        """Returns the open tab; empty if the filter is not that of a tab."""
        return next((name for name, text in TABS if text == self.text), "")

    @property
    def is_newest_first(self) -> bool:
        return self.sort is Sort.CREATED and self.is_descending

    def url(self, *, page: int = 1, seen: str = "") -> str:
        return self._build_url(self.sort, self.order, page, seen)

    def sorted_by(self, sort: Sort) -> str:
        """Returns the URL behind a column's heading: sorts by it, or reverses its order."""
        if sort is not self.sort:
            return self._build_url(sort, None, 1)
        return self._build_url(sort, "asc" if self.is_descending else "desc", 1)

    def _build_url(self, sort: Sort, order: str | None, page: int, seen: str = "") -> str:
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
    """A filter that a user has named. Saved views are stored in a cookie of the browser."""

    name: str
    text: str


def read_saved_views(request: Request) -> list[SavedView]:
    """Returns the saved views of this browser; none if the cookie is not valid."""
    try:
        pairs = read_json(base64.urlsafe_b64decode(request.cookies.get(COOKIE, "")) or b"[]")
        views = [SavedView(str(name)[:NAME_MAX], str(text)[:TEXT_MAX]) for name, text in pairs]
    except (ValueError, TypeError):
        return []
    return views[:VIEWS_MAX]


def cookie_text(views: Sequence[SavedView]) -> str:
    """Returns the cookie's text, which `saved_views` reads."""
    text = json.dumps([(view.name, view.text) for view in views], ensure_ascii=False)
    return base64.urlsafe_b64encode(text.encode()).decode()
