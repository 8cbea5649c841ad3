"""Numbers among JSON values."""

from __future__ import annotations

import pytest

from app.kit.text.json_values import is_number, number_in, whole_in


@pytest.mark.parametrize(("value", "expected"), [(3, 3.0), (2.7, 2.7), (True, None), ("3", None), (None, None)])
def test_only_numbers_are_read_from_an_object(value: object, expected: float | None) -> None:
    assert is_number(value) == (expected is not None)
    assert number_in({"n": value}, "n") == expected
    assert whole_in({"n": value}, "n") == (None if expected is None else int(expected))


def test_a_missing_member_is_none() -> None:
    assert number_in({}, "n") is None and whole_in({}, "n") is None
