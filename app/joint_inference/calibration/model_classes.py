"""The classes of the models, as files with the true content of pictures name them."""

from __future__ import annotations

from collections.abc import Sequence

from app.joint_inference.errors import BadSamples
from app.kit.text.plain_text import MOST_DIGITS


class ModelClasses:
    """Finds the index of a class.

    Args:
        names: of the classes, by index; may be empty. Of two with the same name, the first is meant.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._indexes: dict[str, int] = {}
        for index, name in enumerate(names):
            self._indexes.setdefault(name, index)

    def index_of(self, name: str, place: str) -> int:
        """Returns the index of a class; a name that is a number is its own index.

        Args:
            place: where the name stands, for the message.

        Raises:
            BadSamples: The models do not know the class.
        """
        if name.isdecimal() and len(name) <= MOST_DIGITS:
            return int(name)
        if name not in self._indexes:
            known = ", ".join(list(self._indexes)[:8]) or "none: this model names no classes, so give their numbers"
            raise BadSamples(f"{place}: the models know no class {name[:40]!r}.", hint=f"They know {known}.")
        return self._indexes[name]
