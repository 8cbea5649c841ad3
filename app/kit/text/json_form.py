"""Dataclasses as JSON and back, by their fields' types.

It uses msgspec, which loads in a tenth of pydantic's time: nodes read and write little else. msgspec is imported on
first use, because the process of the scheduling policies has dataclasses that it neither reads nor writes.
"""

from __future__ import annotations

import re
import threading
from typing import Any, Generic, Self, TypeVar, cast

from app.kit.text.json_values import JsonObject

T = TypeVar("T")
Place = tuple[str, ...]
_AT = re.compile(r" - at (?:`key` in )?`\$(?P<path>[^`]*)`$")
_STEP = re.compile(r"[^.\[\]]+")
_examining = threading.Lock()
_examined: set[Any] = set()
"""Types whose fields msgspec knows."""


class FormError(ValueError):
    """The data has another form.

    Attributes:
        place: The location of the problem: names of fields and indices, from outside in.
        problem: The problem.
    """

    def __init__(self, place: Place, problem: str) -> None:
        self.place, self.problem = place, problem
        super().__init__(f"{'.'.join(place)}: {problem}" if place else problem)


class JsonForm(Generic[T]):
    """The JSON form of a dataclass: an object with its fields in their order, enumerations by value."""

    def __init__(self, kind: type[T]) -> None:
        """
        Args:
            kind: the dataclass.
        """
        self._kind = kind

    def write(self, value: T) -> JsonObject:
        """Returns a value for json.dumps."""
        import msgspec

        return cast("JsonObject", _to_lists(msgspec.to_builtins(value)))

    def read(self, data: object) -> T:
        """Creates a value from the output of `write`. Unknown keys are ignored: a newer version may have more.

        Raises:
            FormError: The data has another form.
        """
        import msgspec

        _examine(self._kind)
        try:
            return msgspec.convert(data, self._kind)
        except msgspec.ValidationError as error:
            if isinstance(error.__cause__, FormError):  # from the dataclass's own check
                raise error.__cause__ from None
            at = _AT.search(str(error))
            raise FormError(tuple(_STEP.findall(at["path"])) if at else (), _AT.sub("", str(error))) from None


class JsonDocument:
    """A dataclass that has a JSON form: that of `JsonForm`."""

    def to_json(self) -> JsonObject:
        return JsonForm(type(self)).write(self)

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Reads what `to_json` produces.

        Raises:
            FormError: The data has another form; a ValueError.
        """
        return JsonForm(cls).read(data)


def _examine(kind: Any) -> None:
    """Lets msgspec read the fields of a type, in one thread at a time: it keeps what it knows of a type before it knows
    all, and a second thread that reads the type meanwhile would crash the process (msgspec 0.22)."""
    import msgspec

    if kind not in _examined:
        with _examining:
            msgspec.json.Decoder(kind)
            _examined.add(kind)


def _to_lists(value: Any) -> Any:
    """msgspec keeps tuples."""
    if isinstance(value, dict):
        return {key: _to_lists(each) for key, each in value.items()}
    return [_to_lists(each) for each in value] if isinstance(value, list | tuple) else value
