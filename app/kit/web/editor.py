"""The editor of a document that is written as a text, or by a form that writes the text.

Both ways are one form with one text behind it: what is previewed is what is sent, byte for byte. What the document is,
and how form and text become each other, is its capability's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from starlette.responses import Response

from app.kit.errors import ModelmillError
from app.kit.web.http import retry_after

FORM = "form"
Problems = dict[str, str]
"""Sentences by field of the form; "" for what belongs to no field."""
Values = TypeVar("Values")
AnyDraft = TypeVar("AnyDraft", bound="Draft")  # type: ignore[type-arg]


@dataclass(frozen=True)
class Draft(Generic[Values]):
    """What the page holds."""

    mode: str
    """FORM, or the language of the text."""
    values: Values
    """Of the form's fields."""
    text: str
    """The document, whichever way it came."""
    problems: Problems = field(default_factory=dict)
    error: ModelmillError | None = None
    """Why the document was refused."""
    is_foreign: bool = False
    """The text says something for which the form has no field."""


def action_of(sent: Mapping[str, str]) -> tuple[str, str]:
    """Which button was pressed: "submit" without one, and what its value says after the colon."""
    action, _, argument = sent.get("action", "submit").partition(":")
    return action, argument


def as_text(draft: AnyDraft, mode: str) -> AnyDraft:
    """The same document as a text in this language."""
    return replace(draft, mode=mode, problems={})


def as_form(draft: AnyDraft, values: object, *, is_document: bool) -> AnyDraft:
    """The same document by the form; it stays a text if the form would lose something.

    Args:
        values: of the form's fields; None if the form cannot say what the text says.
        is_document: whether the text means anything at all.
    """
    if values is None:
        return replace(draft, is_foreign=is_document)
    return replace(draft, mode=FORM, values=values, problems={})


def refused(draft: AnyDraft, error: ModelmillError, problems: Problems) -> AnyDraft:
    return replace(draft, problems=problems, error=error)


def problems_of_text(error: ModelmillError, *, at: str, problem: str) -> Problems:
    """All of an error beside the text, which has no other fields.

    Args:
        at: the key in the error's list of problems under which the place stands.
        problem: the key under which the sentence stands.
    """
    listed = [f"{entry[at]}: {entry[problem]}" for entry in error.detail.get("problems", ())]
    return {"": "\n".join(listed) or " ".join(part for part in (error.message, error.hint) if part)}


def with_retry(response: Response, draft: AnyDraft) -> Response:
    """The page, which says when to try again if the error does."""
    response.headers.update(retry_after(draft.error) if draft.error else {})
    return response
