"""Search for pages by name, and for jobs by the filter language: a page, and the fragment of the palette."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.model import JobRecord
from app.conversion.model.job_filter import BadFilter, parse
from app.conversion.pages.job_list import TEXT_MAX, list_url
from app.kit.clock import now
from app.kit.web.auth import user_of
from app.kit.web.languages import language_of, translations
from app.kit.web.navigation import entries_for
from app.kit.web.templates import render

JOBS_SHOWN = 8


@dataclass(frozen=True)
class SearchResults:
    """What a search has found."""

    places: list[tuple[str, str]]
    """(name in the reader's language, URL) of each page."""
    jobs: list[JobRecord]
    total: int
    """Number of jobs that match."""
    lists: list[tuple[str, str]]
    problem: BadFilter | None


def page(request: Request) -> Response:
    """Renders the search page, or the fragment of the palette."""
    text = _get_text(request)
    return render(
        request, "conversion/search.html", text=text, matches=_search(request, text), all_url=list_url(q=text)
    )


def fragment(request: Request) -> Response:
    text = _get_text(request)
    matching = _search(request, text)
    return render(request, "conversion/_search_results.html", text=text, matches=matching, all_url=list_url(q=text))


def _get_text(request: Request) -> str:
    return " ".join(request.query_params.get("q", "")[:TEXT_MAX].split())


def _search(request: Request, text: str) -> SearchResults:
    words = translations(language_of(request))
    named = [(words.gettext(entry.label), entry) for entry in entries_for(request)]
    sought = text.lower()
    places = [(name, entry.url) for name, entry in named if sought in name.lower() or sought in entry.label.lower()]
    conversion, user = conversion_of(request), user_of(request)
    try:
        matching = conversion.index.search(parse(text, now=now()), user, limit=JOBS_SHOWN)
    except BadFilter as problem:
        return SearchResults(places, [], 0, [], problem)
    lists = [(name, f"{entry.url}?{urlencode({'q': text})}") for name, entry in named if text and entry.is_searched]
    jobs = conversion.jobs.several(matching.job_ids, user)
    return SearchResults(places, jobs, matching.total, [] if ":" in text else lists, None)


ROUTES = [
    Route("/ui/search", page),
    Route("/ui/search/results", fragment),
]
