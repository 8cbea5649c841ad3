"""Actions on several jobs of the list, or of the archive, at once: compare, tag, keep, cancel, delete. What loses
nothing can be reversed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal
from urllib.parse import urlencode

from pydantic import BaseModel, BeforeValidator, Field, StringConstraints
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.conversion.access import conversion_of
from app.conversion.model import JobRecord
from app.conversion.pages.compare import LETTERS, compare_url
from app.conversion.pages.job_list import ARCHIVE, LIST, PAGE_JOBS, TABLE
from app.conversion.service import Conversion
from app.conversion.service.edits import BulkResult, Verb
from app.kit.errors import BadInput, BadRequest
from app.kit.web.auth import user_of
from app.kit.web.common_pages import see_other
from app.kit.web.page_actions import with_form
from app.kit.web.templates import TemplateContext, render

Several = Annotated[tuple[str, ...], BeforeValidator(lambda ids: (ids,) if isinstance(ids, str) else ids)]
ActionName = Literal["compare", "table", "tag", "untag", "keep", "unkeep", "cancel", "delete"]


class Selection(BaseModel):
    """The selected jobs, and the action."""

    id: Annotated[Several, Field(max_length=500)] = ()
    action: ActionName
    tag: Annotated[str, StringConstraints(strip_whitespace=True, max_length=50)] = ""
    """The tag to add or remove."""
    confirmed: bool = False
    """cancel and delete ask for confirmation first."""
    is_undo: bool = False
    """True if it reverses the last action."""
    view: Annotated[str, Field(pattern=rf"^({LIST}|{ARCHIVE})(\?[^#\s]*)?$", max_length=2000)] = LIST
    """URL of the list as it was open, to which the user returns."""

    @property
    def area(self) -> str:
        """Returns the part of the pages to which the list belongs."""
        return "archive" if self.view.startswith(ARCHIVE) else "jobs"


@dataclass(frozen=True)
class ListAction:
    """An action on each of the selected jobs."""

    verb: Verb
    note: str
    """The word by which the list reports it."""


ACTIONS: Mapping[str, ListAction] = {
    "tag": ListAction("tag", "tagged"),
    "untag": ListAction("tag", "untagged"),
    "keep": ListAction("keep", "kept"),
    "unkeep": ListAction("unkeep", "unkept"),
    "cancel": ListAction("cancel", "cancelled"),
    "delete": ListAction("delete", "deleted"),
}
ASKED_BEFORE = ("cancel", "delete")
"""Actions that cannot be reversed."""


@with_form(Selection)
def apply_selection(request: Request, selection: Selection) -> Response:
    """Compare and table redirect to their pages; cancel and delete show a page that asks for confirmation; other
    actions are carried out."""
    if selection.action == "compare":
        return _compare(selection.id)
    if selection.action == "table":
        return see_other(f"{TABLE}?{urlencode({'job': selection.id[:PAGE_JOBS]}, doseq=True)}")
    if selection.action in ("tag", "untag") and not selection.tag:
        raise BadInput("A tag is missing.", hint="Write the tag beside the button.")
    conversion, user = conversion_of(request), user_of(request)
    records = conversion.jobs.known_several(selection.id, user)
    fitting = [job for job in records if _does_fit(job, selection)]
    if selection.action in ASKED_BEFORE and not selection.confirmed:
        left_out = len(selection.id) - len(fitting)
        shown: TemplateContext = {"selection": selection, "jobs": fitting, "left_out": left_out}
        return render(request, "conversion/confirm.html", area=selection.area, **shown)
    result = _do(conversion, user, selection, [job.job_id for job in fitting])
    return see_other(_list_url(selection, result))


def _compare(ids: Sequence[str]) -> Response:
    if not 2 <= len(ids) <= len(LETTERS):
        raise BadRequest("Two to eight jobs can be compared.", hint="Go back and tick two to eight jobs.")
    return see_other(compare_url(ids))


def _does_fit(job: JobRecord, selection: Selection) -> bool:
    """Returns whether the action changes this job. Its reversal is then applied only to the jobs that it changed."""
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


def _list_url(selection: Selection, result: BulkResult) -> str:
    """Returns the URL of the list with a report: the action, the number of jobs, and their ids if it can be
    reversed."""
    fields = {
        "note": "undone" if selection.is_undo else ACTIONS[selection.action].note,
        "count": len(result.done),
        "left": len(result.problems) or "",
    }
    if selection.action not in ASKED_BEFORE and not selection.is_undo:
        is_short = len(result.done) <= PAGE_JOBS
        fields |= {"done_tag": selection.tag, "done": ",".join(result.done) if is_short else ""}
    joined = "&" if "?" in selection.view else "?"
    return selection.view + joined + urlencode({name: value for name, value in fields.items() if value != ""})


ROUTES = [Route("/ui/jobs/selected", apply_selection, methods=["POST"])]
