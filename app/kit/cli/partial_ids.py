"""Ids that users shorten on the command line."""

from __future__ import annotations

from collections.abc import Iterable

from app.kit.errors import BadRequest, NotFound
from app.kit.text.json_values import JsonObject

SEARCHED_AT_MOST = 1000
"""Entries of a list among which an id is looked for."""


def only_match(entries: Iterable[JsonObject], part: str, *, field: str, noun: str, hint: str) -> JsonObject:
    """Returns the one entry of a list that a user means.

    Args:
        entries: those whose id the part fits; they are not read if the part is empty, which fits all.
        part: what the user has written.
        field: of an entry, with its id.
        noun: what the entries are.
        hint: where the user sees them.

    Raises:
        BadRequest: The part is empty, or fits several.
        NotFound: It fits none.
    """
    if not part:
        raise BadRequest(f"the id of the {noun} is empty", hint=hint)
    matches = list(entries)
    if not matches:
        raise NotFound(f"there is no {noun} {part}", hint=hint)
    if len(matches) > 1:
        ids = ", ".join(entry[field] for entry in matches[:5])
        raise BadRequest(f"{part} fits {len(matches)} {noun}s: {ids}", hint="Give more of the id.")
    return matches[0]
