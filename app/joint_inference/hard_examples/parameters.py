"""Parses the parameters of a resource, which are strings. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

from app.joint_inference.hard_examples.base import BadParameter

YES, NO = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
Choice = TypeVar("Choice", bound=str)


class ParameterReader:
    """The given parameters by key. A missing or empty one has its default; everything else that is wrong raises
    BadParameter."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self.parameters = parameters

    def text(self, key: str, default: str = "") -> str:
        value = self.parameters.get(key, "")
        if not isinstance(value, str):
            raise make_bad_parameter(key, value, "a text")
        return value.strip() or default

    def number(self, key: str, default: float, *, least: float = -math.inf, most: float = math.inf) -> float:
        """A parameter as a number; see `number_of`.

        Args:
            default: used if the parameter is missing or empty.
        """
        text = self.text(key)
        return default if not text else number_of(key, text, least=least, most=most)

    def share(self, key: str, default: float) -> float:
        return self.number(key, default, least=0, most=1)

    def whole(self, key: str, default: int, *, least: int, most: int) -> int:
        """A parameter as a whole number.

        Args:
            default: used if the parameter is missing or empty.
            least: included.
            most: included.

        Raises:
            BadParameter: It is not a whole number in this range.
        """
        text = self.text(key)
        if not text:
            return default
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if not least <= number <= most:
            raise make_bad_parameter(key, text, f"a whole number from {least} to {most}")
        return number

    def flag(self, key: str, default: bool) -> bool:
        text = self.text(key).lower()
        if text and text not in YES + NO:
            raise make_bad_parameter(key, text, "true or false")
        return text in YES if text else default

    def choice(self, key: str, default: Choice, choices: Sequence[Choice]) -> Choice:
        text = self.text(key)
        match = next((choice for choice in choices if choice.lower() == text.lower()), None)
        if text and match is None:
            raise make_bad_parameter(key, text, f"one of {', '.join(choices)}")
        return match if match is not None else default


def number_of(key: str, text: str, *, least: float = -math.inf, most: float = math.inf) -> float:
    """Reads a finite number, which may be a fraction such as 1/255.

    Args:
        key: the parameter, for the error's message.
        text: the value.
        least: included.
        most: included.

    Raises:
        BadParameter: It is not a number in this range.
    """
    upper, _, lower = text.partition("/")
    try:
        number = float(upper) / float(lower) if lower else float(text)
    except (ValueError, ZeroDivisionError):
        number = math.nan
    if not math.isfinite(number) or not least <= number <= most:
        raise make_bad_parameter(key, text, f"a number{_format_range(least, most)}")
    return number


def make_bad_parameter(key: str, value: object, expected: str) -> BadParameter:
    return BadParameter(f"Parameter {key} must be {expected}, not {str(value)[:80]!r}.", detail={"key": key})


def _format_range(least: float, most: float) -> str:
    if math.isinf(most):
        return "" if math.isinf(least) else f" of {least:g} and more"
    return f" from {least:g} to {most:g}"
