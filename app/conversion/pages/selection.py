"""What is done to several jobs of the list at once: compare, tag, keep, cancel, delete; taken back where nothing is
lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.model import JobRecord
from app.conversion.pages.compare import LETTERS, compare_url
from app.conversion.pages.job_list import LIST, PAGE_JOBS, TABLE
from app.conversion.service import Conversion
from app.conversion.service.edits import BulkResult, Verb
from app.kit.errors import BadInput, BadRequest
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.http import form
from app.kit.web.templates import render

Several = Annotated[tuple[str, ...], BeforeValidator(lambda ids: (ids,) if isinstance(ids, str) else ids)]
ActionName = Literal["compare", "table", "tag", "untag", "keep", "unkeep", "cancel", "delete"]


class Selection(BaseModel):
    """What was ticked, and what to do with it."""

    id: Annotated[Several, Field(max_length=500)] = ()
    action: ActionName
    tag: Annotated[str, StringConstraints(strip_whitespace=True, max_length=50)] = ""
    """Of tag and untag."""
    confirmed: bool = False
    """cancel and delete ask before."""
    is_undo: bool = False
    """Does it take back what was done just now?"""
    view: Annotated[str, Field(pattern=rf"^{LIST}(\?[^#\s]*)?$", max_length=2000)] = LIST
    """The list as it was open, where its user goes back to."""


@dataclass(frozen=True)
class ListAction:
    """Something that is done to each of the ticked jobs."""

    verb: Verb
    note: str
    """By which the list says that it was done."""


ACTIONS: Mapping[str, ListAction] = {
    "tag": ListAction("tag", "tagged"),
    "untag": ListAction("tag", "untagged"),
    "keep": ListAction("keep", "kept"),
    "unkeep": ListAction("unkeep", "unkept"),
    "cancel": ListAction("cancel", "cancelled"),
    "delete": ListAction("delete", "deleted"),
}
ASKED_BEFORE = ("cancel", "delete")
"""What cannot be taken back."""


async def selected(request: Request) -> Response:
    """Compare and table go to their pages; cancel and delete ask first, on one of their own; the rest is done now."""
    selection = await form(request, Selection)
    if selection.action == "compare":
        return _compare(selection.id)
    if selection.action == "table":
        return see_other(f"{TABLE}?{urlencode({'job': selection.id[:PAGE_JOBS]}, doseq=True)}")
    if selection.action in ("tag", "untag") and not selection.tag:
        raise BadInput("A tag is missing.", hint="Write the tag beside the button.")
    conversion, user = conversion_of(request), user_of(request)
    records = await run_in_threadpool(conversion.jobs.several, selection.id, user)
    fitting = [job for job in records if _does_fit(job, selection)]
    if selection.action in ASKED_BEFORE and not selection.confirmed:
        left_out = len(selection.id) - len(fitting)
        return render(
            request, "conversion/confirm.html", area="jobs", selection=selection, jobs=fitting, left_out=left_out
        )
    result = await run_in_threadpool(_do, conversion, user, selection, [job.job_id for job in fitting])
    return see_other(_told(selection, result))


def _compare(ids: Sequence[str]) -> Response:
    if not 2 <= len(ids) <= len(LETTERS):
        raise BadRequest("Two to eight jobs can be compared.", hint="Go back and tick two to eight jobs.")
    return see_other(compare_url(ids))


def _does_fit(job: JobRecord, selection: Selection) -> bool:
    """Would it change anything about this job? What takes it back is then done to those that it did change."""
    match selection.action:
        case "tag":
            return selection.tag not in job.tags
        case "untag":
            return selection.tag in job.tags
        case "keep":
            return not job.keep
        case "unkeep":
            return job.keep
        case "delete":
            return job.is_terminal
    return not job.is_terminal


def _do(conversion: Conversion, user: str, selection: Selection, job_ids: Sequence[str]) -> BulkResult:
    tag = (selection.tag,)
    return conversion.edits.each(
        ACTIONS[selection.action].verb,
        job_ids,
        user,
        add=tag if selection.action == "tag" else (),
        remove=tag if selection.action == "untag" else (),
    )


def _told(selection: Selection, result: BulkResult) -> str:
    """The list as it was open, with what was done and to how many; and to which, where that can be taken back."""
    fields = {
        "note": "undone" if selection.is_undo else ACTIONS[selection.action].note,
        "count": len(result.done),
        "left": len(result.problems) or "",
    }
    if selection.action not in ASKED_BEFORE and not selection.is_undo:
        is_short = len(result.done) <= PAGE_JOBS
        fields |= {"tag": selection.tag, "done": ",".join(result.done) if is_short else ""}
    joined = "&" if "?" in selection.view else "?"
    return selection.view + joined + urlencode({name: value for name, value in fields.items() if value != ""})


ROUTES = [Route("/ui/jobs/selected", selected, methods=["POST"])]
