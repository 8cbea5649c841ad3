"""Dataclasses as JSON and back, by their fields' types."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class JsonForm(Generic[T]):
    """The JSON form of a dataclass: an object with its fields in their order, tuples as arrays, enumerations by value.

    pydantic is imported when the first value is written or read: who only imports a model does without.
    """

    def __init__(self, kind: type[T]) -> None:
        """
        Args:
            kind: the dataclass.
        """
        self._kind = kind

    def write(self, value: T) -> dict[str, Any]:
        """What json.dumps takes."""
        written: dict[str, Any] = self._adapter.dump_python(value, mode="json")
        return written

    def read(self, data: object) -> T:
        """A value of what `write` gave. Keys that are no fields are passed over: a newer version may have more.

        Raises:
            pydantic.ValidationError: it has another form; a ValueError.
        """
        return self._adapter.validate_python(data)

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        from pydantic import TypeAdapter

        return TypeAdapter(self._kind)
