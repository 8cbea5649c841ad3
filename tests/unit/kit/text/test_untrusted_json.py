"""JSON from outside raises one kind of error, whatever is wrong with it."""

from __future__ import annotations

import pytest

from app.kit.text.untrusted_json import NestedTooDeeply, UnreadableJson, read_json, read_object

DEEP = "[" * 100_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"a": 1,\n b}', "line 2, column 2"),
        (b"\xff\xff\xff\xff\xff", "decode"),
        ("1" * 5000, "digits"),
        ("", "line 1, column 1"),
    ],
)
def test_the_message_says_what_is_wrong(text: str | bytes, problem: str) -> None:
    with pytest.raises(UnreadableJson, match=problem):
        read_json(text)


def test_a_text_without_end_is_nested_too_deeply() -> None:
    with pytest.raises(NestedTooDeeply):
        read_json(DEEP)
    with pytest.raises(UnreadableJson, match="nested too deeply"):
        read_object('{"a": ' + DEEP)


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "[1e999]", r'{"a": "\ud800"}'])
def test_only_a_strict_reader_refuses_what_cannot_be_shown(text: str) -> None:
    read_json(text)
    with pytest.raises(UnreadableJson):
        read_json(text, is_strict=True)


@pytest.mark.parametrize("text", ["[]", "null", "3", '"a"'])
def test_another_value_is_no_object(text: str) -> None:
    with pytest.raises(UnreadableJson, match="not a JSON object"):
        read_object(text)


def test_what_is_well_formed_is_read() -> None:
    assert read_object(b'{"a": [1, 2.5, "\\u6a5f"]}', is_strict=True) == {"a": [1, 2.5, "機"]}
    assert read_json('{"a": 1, "a": 2}', pairs=list) == [("a", 1), ("a", 2)]
