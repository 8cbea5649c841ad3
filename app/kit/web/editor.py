"""An editor for a document, as text or with a form that writes the text.

Both ways are one form with one text behind it: the preview is sent byte for byte. The capability defines the document,
and the conversion between form and text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from starlette.responses import Response

from app.kit.errors import ModelmillError
from app.kit.web.http import retry_after

FORM = "form"
Problems = dict[str, str | ModelmillError]
"""Messages by form field; "" for those without a field."""
Values = TypeVar("Values")
AnyDraft = TypeVar("AnyDraft", bound="Draft[Any]")


@dataclass(frozen=True)
class Draft(Generic[Values]):
    """The state of the page."""

    mode: str
    """FORM, or the language of the text."""
    values: Values
    """Values of the form's fields."""
    text: str
    """The document, whichever way it was entered."""
    problems: Problems = field(default_factory=dict)
    error: ModelmillError | None = None
    """Why the document was refused."""
    is_foreign: bool = False
    """The text contains something for which the form has no field."""


def action_of(sent: Mapping[str, str]) -> tuple[str, str]:
    """The pressed button: "submit" without one; its value follows the colon."""
    action, _, argument = sent.get("action", "submit").partition(":")
    return action, argument


def as_form(draft: AnyDraft, values: object, *, is_document: bool) -> AnyDraft:
    """Converts the document to the form; it stays text if the form would lose something.

    Args:
        values: the values of the form's fields; None if the form cannot represent the text.
        is_document: whether the text means anything at all.
    """
    if values is None:
        return replace(draft, is_foreign=is_document)
    return replace(draft, mode=FORM, values=values, problems={})


def problems_of_text(error: ModelmillError, *, at: str, problem: str) -> Problems:
    """Shows a complete error beside the text, which has no other fields.

    Args:
        at: the key of the place in the error's list of problems.
        problem: the key of the sentence.
    """
    listed = [f"{entry[at]}: {entry[problem]}" for entry in error.detail.get("problems", ())]
    return {"": "\n".join(listed) or error}


def with_retry(response: Response, draft: AnyDraft) -> Response:
    """Renders the page, with Retry-After if the error has one."""
    response.headers.update(retry_after(draft.error) if draft.error else {})
    return response
