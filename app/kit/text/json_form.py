"""Dataclasses as JSON and back, by their fields' types. Without pydantic: nodes read and write little else."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Generic, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")
Place = tuple[str | int, ...]


class FormError(ValueError):
    """Data has another form.

    Attributes:
        place: Of what is wrong: names of fields and indices, from outside in.
        problem: What is wrong there.
    """

    def __init__(self, place: Place, problem: str) -> None:
        self.place, self.problem = place, problem
        super().__init__(f"{'.'.join(map(str, place))}: {problem}" if place else problem)


class JsonForm(Generic[T]):
    """The JSON form of a dataclass: an object with its fields in their order, tuples as arrays, enumerations by value.

    Fields are texts, truth values, finite numbers, enumerations, literals, dataclasses, tuples, mappings from texts,
    and Any; each of them with None if need be.
    """

    def __init__(self, kind: type[T]) -> None:
        """
        Args:
            kind: the dataclass.
        """
        self._kind = kind

    def write(self, value: T) -> dict[str, Any]:
        """What json.dumps takes."""
        return cast("dict[str, Any]", _written(value))

    def read(self, data: object) -> T:
        """A value of what `write` gave. Keys that are no fields are passed over: a newer version may have more.

        Raises:
            FormError: it has another form.
        """
        return cast("T", _read(self._kind, data, ()))


def _written(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _written(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {key: _written(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_written(each) for each in value]
    return value


def _read(kind: Any, data: Any, place: Place) -> Any:
    if plain := _PLAIN.get(kind):
        return plain(data, place)
    origin = get_origin(kind) or kind
    if nested := _NESTED.get(origin):
        return nested(get_args(kind), data, place)
    if issubclass(origin, Enum):
        return origin(_one_of(tuple(each.value for each in origin), data, place))
    return _dataclass(kind, data, place)


def _anything(data: Any, _: Place) -> Any:
    return data


def _optional(kinds: tuple[Any, ...], data: Any, place: Place) -> Any:
    (kind,) = (each for each in kinds if each is not NoneType)
    return None if data is None else _read(kind, data, place)


def _one_of(values: tuple[Any, ...], data: Any, place: Place) -> Any:
    if not isinstance(data, str) or data not in values:
        raise FormError(place, f"is to be {', '.join(map(str, values))}")
    return data


def _tuple(kinds: tuple[Any, ...], data: Any, place: Place) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        raise FormError(place, "is to be an array")
    if kinds[1:] == (Ellipsis,):
        kinds = kinds[:1] * len(data)
    if len(kinds) != len(data):
        raise FormError(place, f"is to have {len(kinds)} values")
    return tuple(_read(kind, each, (*place, index)) for index, (kind, each) in enumerate(zip(kinds, data, strict=True)))


def _mapping(kinds: tuple[Any, ...], data: Any, place: Place) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise FormError(place, "is to be an object")
    return {_text(key, place): _read(kinds[1], each, (*place, key)) for key, each in data.items()}


def _dataclass(kind: Any, data: Any, place: Place) -> Any:
    if isinstance(data, kind):
        return data
    if not isinstance(data, Mapping):
        raise FormError(place, "is to be an object")
    values = {}
    for name, of, is_needed in _fields(kind):
        if name in data:
            values[name] = _read(of, data[name], (*place, name))
        elif is_needed:
            raise FormError((*place, name), "is missing")
    return kind(**values)


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any, bool], ...]:
    """Name and type of each, and whether it has no default."""
    types = get_type_hints(kind)
    return tuple(
        (field.name, types[field.name], field.default is MISSING and field.default_factory is MISSING)
        for field in fields(kind)
    )


def _text(data: Any, place: Place) -> str:
    if not isinstance(data, str):
        raise FormError(place, "is to be a text")
    return data


def _truth(data: Any, place: Place) -> bool:
    if not isinstance(data, bool):
        raise FormError(place, "is to be true or false")
    return data


def _whole(data: Any, place: Place) -> int:
    number = _number(data, place)
    if not number.is_integer():
        raise FormError(place, "is to be a whole number")
    return int(data)


def _number(data: Any, place: Place) -> float:
    if isinstance(data, bool) or not isinstance(data, int | float):
        raise FormError(place, "is to be a number")
    try:
        number = float(data)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise FormError(place, "is to be a finite number")
    return number


_PLAIN: Mapping[Any, Callable[[Any, Place], Any]] = {
    Any: _anything,
    str: _text,
    bool: _truth,
    int: _whole,
    float: _number,
}
_NESTED: Mapping[Any, Callable[[tuple[Any, ...], Any, Place], Any]] = {
    Union: _optional,
    UnionType: _optional,
    Literal: _one_of,
    tuple: _tuple,
    dict: _mapping,
    Mapping: _mapping,
}
