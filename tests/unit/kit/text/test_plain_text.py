"""Names that are numbers, in a list."""

from __future__ import annotations

from app.kit.text.plain_text import by_number, names_text


def test_numbers_come_in_their_order_and_names_after_them() -> None:
    names = ["10", "b", "2", "1", "٣", "0", "a", "9" * 40]
    assert sorted(names, key=by_number) == ["0", "1", "2", "10", "9" * 40, "a", "b", "٣"]


def test_of_many_names_the_first_are_told() -> None:
    assert names_text(["a", "b"], 2) == "a, b"
    assert names_text(["a", "b", "c"], 2) == "a, b, …"
    assert names_text([], 2) == ""
