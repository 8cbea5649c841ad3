"""Forms that change an existing job, or one of the archive: its name, tags and notes, and whether it is kept."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, StringConstraints
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.pages.job_list import ARCHIVE, LIST
from app.conversion.pages.new_form import tags_of
from app.conversion.schemas import JobChange
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import checked
from app.kit.web.page_actions import with_form


class WordsForm(BaseModel):
    """The name, tags and notes of a job."""

    name: str = ""
    tags: Annotated[str, StringConstraints(max_length=2000)] = ""
    """Separated by commas."""
    notes: str = ""


class KeepJobForm(BaseModel):
    """Whether the files of a job are kept permanently."""

    keep: bool = False


@with_form(WordsForm)
def edit(request: Request, words: WordsForm) -> Response:
    """Replaces the name, tags and notes by those of the form."""
    tags, notes = tags_of({"tags": words.tags}), words.notes.replace("\r\n", "\n")
    change = checked(lambda: JobChange.model_validate({"name": words.name, "tags": tags, "notes": notes}))
    return _apply(request, change, "?note=edited")


@with_form(KeepJobForm)
def keep(request: Request, chosen: KeepJobForm) -> Response:
    """Keeps the job's files permanently, or lets them expire."""
    return _apply(request, JobChange(keep=chosen.keep), "")


def _apply(request: Request, change: JobChange, query: str) -> Response:
    conversion, job_id, user = conversion_of(request), request.path_params["job_id"], user_of(request)
    values: dict[str, Any] = change.model_dump(exclude_none=True)
    conversion.edits.change(job_id, user, **values)
    return see_other(f"{request.url.path.rpartition('/')[0]}{query}")


ROUTES = [
    Route(f"{area}/{{job_id}}/{action.__name__}", action, methods=["POST"])
    for area in (LIST, ARCHIVE)
    for action in (edit, keep)
]
