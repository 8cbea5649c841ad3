"""Which services a request is about: field and label selectors. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from app.joint_inference.model.resource import Service
from app.kit.errors import BadRequest

Match = Callable[[Mapping[str, str]], bool]
_FIELDS = ("metadata.name", "metadata.namespace")
_SETS = re.compile(r"([^\s=!,()]+)\s+(in|notin)\s*\(([^()]*)\)")
_EQUAL = re.compile(r"([^\s=!,()]+)\s*(==|=|!=)\s*([^\s=!,()]*)")
_THERE = re.compile(r"(!?)\s*([^\s=!,()]+)")


@dataclass(frozen=True)
class Selector:
    fields: tuple[Match, ...] = ()
    labels: tuple[Match, ...] = ()

    def takes(self, service: Service) -> bool:
        about = {"metadata.name": service.name, "metadata.namespace": service.namespace}
        return all(match(about) for match in self.fields) and all(match(service.labels) for match in self.labels)


def selector_of(query: Mapping[str, str]) -> Selector:
    """Raises BadRequest."""
    fields = tuple(_field(part) for part in _parts(query.get("fieldSelector", "")))
    return Selector(fields, tuple(_label(part) for part in _parts(query.get("labelSelector", ""))))


def fields_of(text: str) -> dict[str, str]:
    """Of a field selector with nothing but equalities. Raises BadRequest."""
    matches = [_EQUAL.fullmatch(part) for part in _parts(text)]
    if not all(match and match.group(2) != "!=" for match in matches):
        raise BadRequest(f"{text!r} is no field selector of equalities.")
    return {match.group(1): match.group(3) for match in matches if match}


def _parts(text: str) -> Iterator[str]:
    """At the commas that are not within parentheses."""
    for part in re.split(r",(?![^()]*\))", text):
        if part.strip():
            yield part.strip()


def _field(part: str) -> Match:
    match = _EQUAL.fullmatch(part)
    if match is None:
        raise BadRequest(f"{part!r} is no field selector: write metadata.name=…")
    key, operator, value = match.groups()
    if key not in _FIELDS:
        raise BadRequest(f"field label not supported: {key}")
    return _equality(key, operator, value)


def _label(part: str) -> Match:
    if match := _SETS.fullmatch(part):
        key, operator, values = match.groups()
        choices = {value.strip() for value in values.split(",")}
        if operator == "in":
            return lambda labels: labels.get(key) in choices
        return lambda labels: labels.get(key) not in choices
    if match := _EQUAL.fullmatch(part):
        return _equality(*match.groups())
    if match := _THERE.fullmatch(part):
        is_not, key = match.groups()
        return lambda labels: (key in labels) is not bool(is_not)
    raise BadRequest(f"{part!r} is no label selector.")


def _equality(key: str, operator: str, value: str) -> Match:
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value
