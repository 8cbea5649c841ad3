"""Search and jump: pages by their names, jobs by the filter language. A page of its own, and the palette's fragment."""

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
from app.kit.web.templates import features_of, render

JOBS_SHOWN = 8


@dataclass(frozen=True)
class Place:
    """Somewhere to go. name: a text of the catalogue. needs: a feature of the installation; '' for none."""

    name: str
    url: str
    needs: str = ""


PLACES = (
    Place("New conversion", "/ui/jobs/new"),
    Place("Jobs", "/ui/jobs"),
    Place("Compare", "/ui/jobs/compare"),
    Place("Stored results", "/ui/results"),
    Place("Sweeps", "/ui/sweeps"),
    Place("Tasks", "/ui/tasks", "training"),
    Place("New task", "/ui/tasks/new", "training"),
    Place("Cluster", "/ui/cluster", "training"),
    Place("Services", "/ui/services"),
    Place("New service", "/ui/services/new"),
    Place("Video", "/ui/video"),
    Place("New video job", "/ui/video/new"),
    Place("Models", "/ui/models"),
    Place("New model", "/ui/models/new"),
    Place("Nodes", "/ui/nodes"),
    Place("Data", "/ui/data"),
    Place("System", "/ui/system"),
    Place("My account", "/ui/account"),
    Place("API description", "/ui/api"),
)
SEARCHED = (("Models", "/ui/models"), ("Services", "/ui/services"), ("Video", "/ui/video"), ("Nodes", "/ui/nodes"))
"""Lists that take a text as well: (name, URL)."""


@dataclass(frozen=True)
class SearchResults:
    places: list[tuple[str, str]]
    """(name in the reader's language, URL)."""
    jobs: list[JobRecord]
    total: int
    """Of the jobs that match."""
    lists: list[tuple[str, str]]
    problem: BadFilter | None


def page(request: Request) -> Response:
    text = _text(request)
    return render(request, "conversion/search.html", text=text, found=_search(request, text), all_url=list_url(q=text))


def fragment(request: Request) -> Response:
    text = _text(request)
    matching = _search(request, text)
    return render(request, "conversion/_search_results.html", text=text, found=matching, all_url=list_url(q=text))


def _text(request: Request) -> str:
    return " ".join(request.query_params.get("q", "")[:TEXT_MAX].split())


def _search(request: Request, text: str) -> SearchResults:
    words = translations(language_of(request))
    named = [(words.gettext(place.name), place) for place in PLACES if place.needs in ("", *features_of(request))]
    sought = text.lower()
    places = [(name, place.url) for name, place in named if sought in name.lower() or sought in place.name.lower()]
    conversion, user = conversion_of(request), user_of(request)
    try:
        matching = conversion.index.search(parse(text, now=now()), user, limit=JOBS_SHOWN)
    except BadFilter as problem:
        return SearchResults(places, [], 0, [], problem)
    lists = [(words.gettext(name), f"{url}?{urlencode({'q': text})}") for name, url in SEARCHED if text]
    jobs = conversion.jobs.several(matching.job_ids, user)
    return SearchResults(places, jobs, matching.total, [] if ":" in text else lists, None)


ROUTES = [
    Route("/ui/search", page),
    Route("/ui/search/results", fragment),
]
