"""What Python's own JSON can write and read, this can too."""

from __future__ import annotations

import json
import math
from enum import StrEnum
from typing import Any

import pytest

from app.kit.text import json_codec


class Word(StrEnum):
    ONE = "one"


class Text(str):
    """Python's own writes it as a text."""

    __slots__ = ()


VALUES: dict[str, Any] = {
    "plain": {"texts": ["", "模型", '\x00"\\\n'], "numbers": [0, -1, 2**70, 0.1, 1e16, 1e300], "not": [None, True]},
    "half of a character": {"name": "half\udc80.onnx"},
    "kinds of texts": {Word.ONE: Word.ONE, "tuple": (1, 2), "text": Text("x")},
    "keys": {1: "a", None: "b"},
}


@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_a_value_comes_back_as_by_pythons_own(value: Any) -> None:
    encoded = json_codec.encode(value)
    assert json_codec.decode(encoded.decode()) == json.loads(encoded) == json.loads(json.dumps(value))


def test_numbers_that_json_does_not_have_are_read_and_not_written() -> None:
    assert json_codec.decode("[1.5, Infinity]") == [1.5, math.inf]
    assert json_codec.encode([math.nan, math.inf]) == b"[null,null]"


def test_what_is_no_json_is_refused() -> None:
    with pytest.raises(TypeError):
        json_codec.encode({"a": object()})
    with pytest.raises(ValueError, match="Expecting"):
        json_codec.decode('{"a": ')
