"""Ids that users shorten on the command line."""

from __future__ import annotations

from collections.abc import Iterable

from app.kit.errors import BadRequest, NotFound

SEARCHED_AT_MOST = 1000
"""Entries of a list among which an id is looked for."""


def only_match(ids: Iterable[str], part: str, *, noun: str, hint: str) -> str:
    """Returns the one id that a user means.

    Args:
        ids: those that the part fits; they are not read if the part is empty, which fits all.
        part: what the user has written.
        noun: what the ids are of.
        hint: where the user sees them.

    Raises:
        BadRequest: The part is empty, or fits several.
        NotFound: It fits none.
    """
    if not part:
        raise BadRequest(f"the id of the {noun} is empty", hint=hint)
    matches = list(ids)
    if not matches:
        raise NotFound(f"there is no {noun} {part}", hint=hint)
    if len(matches) > 1:
        raise BadRequest(f"{part} fits {len(matches)} {noun}s: {', '.join(matches[:5])}", hint="Give more of the id.")
    return matches[0]
