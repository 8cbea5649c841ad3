"""Reads documents from outside: each error names the place, as `dag.input.face_alignment.bbox`, and the problem."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
NAME_RULE = "A name has up to 64 letters, digits, _ and -."
SHOWN = 40
"""Maximum length of a wrong value that an error quotes."""
MOST = 10**9
"""The greatest accepted number."""


def shorten_value(value: object) -> str:
    """A value as quoted by an error: short, on one line."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, str):
        return repr(value if len(value) <= SHOWN else value[:SHOWN] + "…")
    if isinstance(value, int | float):
        is_plain = -MOST <= value <= MOST or (isinstance(value, float) and not math.isfinite(value))
        return repr(value) if is_plain else "a huge number"
    if isinstance(value, Mapping):
        return "an object"
    return "a list" if isinstance(value, Sequence) else "something else"


@dataclass(frozen=True)
class Reader:
    """Checks of values, each returning the value or raising `error`."""

    error: type[BadRequest]
    """Its message starts with the place."""

    def problem(self, place: str, problem: str, hint: str = "") -> BadRequest:
        """The error class to raise."""
        return self.error(f"{place}: {problem}", hint=hint, detail={"place": place})

    def mapping(self, data: object, place: str, *, most: int) -> JsonObject:
        if not isinstance(data, Mapping):
            raise self.problem(place, f"is {shorten_value(data)}, not an object")
        if len(data) > most:
            raise self.problem(place, f"has {len(data)} entries; at most {most} are allowed")
        for key in data:
            if not isinstance(key, str):
                raise self.problem(place, f"has the key {shorten_value(key)}, which is no text")
        return dict(data)

    def only_keys(self, data: Mapping[str, Any], place: str, names: Sequence[str]) -> None:
        """Checks that all keys are among the names."""
        for key in data:
            if key not in names:
                raise self.problem(f"{place}.{key[:64]}", "is not known", f"Known here: {', '.join(names)}.")

    def sequence(self, data: object, place: str, *, most: int) -> list[Any]:
        if not isinstance(data, list | tuple):
            raise self.problem(place, f"is {shorten_value(data)}, not a list")
        if len(data) > most:
            raise self.problem(place, f"has {len(data)} entries; at most {most} are allowed")
        return list(data)

    def name(self, data: object, place: str) -> str:
        if not isinstance(data, str) or NAME.fullmatch(data) is None:
            raise self.problem(place, f"{shorten_value(data)} is no name", NAME_RULE)
        return data

    def text(self, data: object, place: str, *, most: int = 255) -> str:
        """Printable and not empty."""
        if not isinstance(data, str):
            raise self.problem(place, f"is {shorten_value(data)}, not a text")
        if not data or len(data) > most or not data.isprintable():
            raise self.problem(place, f"{shorten_value(data)} is not a printable text of 1 to {most} characters")
        return data

    def number(self, data: object, place: str) -> float:
        if isinstance(data, bool) or not isinstance(data, int | float):
            raise self.problem(place, f"is {shorten_value(data)}, not a number")
        if not -MOST <= data <= MOST:  # also NaN
            raise self.problem(place, f"is {shorten_value(data)}, which is no number to work with")
        return float(data)

    def integer(self, data: object, place: str, *, least: int, most: int) -> int:
        """Returns a whole number of a document; true and false are not numbers.

        Args:
            place: its place in the document, for the error's message.
            least: included.
            most: included.
        """
        if isinstance(data, bool) or not isinstance(data, int):
            raise self.problem(place, f"is {shorten_value(data)}, not a whole number")
        if not least <= data <= most:
            raise self.problem(place, f"is {shorten_value(data)}; it must be {least} to {most}")
        return data

    def choice(self, data: object, place: str, names: Sequence[str]) -> str:
        if not isinstance(data, str) or data not in names:
            raise self.problem(place, f"{shorten_value(data)} is not known", f"There are {', '.join(names)}.")
        return data
