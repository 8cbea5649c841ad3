"""The page of stored results: where to find what jobs have made that a reset has ended."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion import object_keys
from app.conversion.access import conversion_of
from app.conversion.pages import view_models
from app.kit.clock import from_text, now
from app.kit.errors import ModelmillError
from app.kit.web.auth import user_of
from app.kit.web.http import query
from app.kit.web.templates import render
from app.settings import settings_of

PAGE_RESULTS = 30
NEWS_FOR = timedelta(days=1)
"""So long the list of jobs tells of a reset; the way to what is stored stays as long as that does."""


class PageQuery(BaseModel):
    cursor: Annotated[str, Field(pattern=f"^{object_keys.UUID}$")] | None = None


def results(request: Request) -> Response:
    asked, ttl_s = query(request, PageQuery), settings_of(request).record_ttl_s
    found, older = conversion_of(request).results.page(user_of(request), limit=PAGE_RESULTS, after=asked.cursor)
    shown = [(job, *view_models.stored(job.files)) for job in found]
    return render(
        request,
        "conversion/results.html",
        area="jobs",
        found=shown,
        older=older,
        is_first=asked.cursor is None,
        kept_s=ttl_s,
    )


def reset_view(request: Request) -> dict[str, Any]:
    """What the list of jobs says of the last reset. forgotten: how many jobs it ended whose files are stored; while the
    store is away nothing is said of them."""
    conversion, began = conversion_of(request), conversion_of(request).jobs.store.began_at()
    forgotten = 0
    with suppress(ModelmillError):
        forgotten = len(conversion.results.forgotten(user_of(request)))
    is_news = forgotten > 0 and now() - from_text(began) < NEWS_FOR
    return {"forgotten": forgotten, "is_reset_news": is_news, "began": began}


ROUTES = [Route("/ui/results", results)]
