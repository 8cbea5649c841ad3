"""The sentences of pydantic, as people read them."""

from __future__ import annotations

_OF_A_CHECK = "Value error, "


def own_sentence(message: str) -> str:
    """Returns the sentence of a check that raised ValueError, before which pydantic writes that it did; another message
    as it is, but that JSON has lists and no tuples."""
    return message.removeprefix(_OF_A_CHECK).replace("Tuple should have", "List should have")
