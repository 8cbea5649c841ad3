"""What every store asks of its keys, before it reaches for anything: of each mistake, and not through each verb."""

from __future__ import annotations

import pytest

from app.kit.errors import BadInput
from app.kit.objects import BadKey
from app.kit.objects.base import check_content_type, check_key, check_prefix, clamp_range


@pytest.mark.parametrize(
    "key",
    [
        *["", "/etc/passwd", "a/../b", "..", "./a", "a//b", "a/", "a/ /b", "a\\b", "a\0b", "a\nb", "a\x7fb", "a\x85b"],
        *["a\ud800", "/".join(["x" * 100] * 6), "/".join(["模" * 60] * 3), "x" * 251],
    ],
    ids=ascii,
)
def test_what_not_every_store_could_hold_is_no_key(key: str) -> None:
    with pytest.raises(BadKey) as caught:
        check_key(key)
    caught.value.message.encode()  # fit for a response


@pytest.mark.parametrize("key", ["été", "…", "a:b*c|d", "~a", "-rf", "x" * 250, "模型/輸入.onnx"])
def test_any_other_character_may_be_in_a_key(key: str) -> None:
    assert check_key(key) == check_prefix(key) == key


@pytest.mark.parametrize("prefix", ["/", "a/../", "..", "a//", "a\n", "a\\"])
def test_what_no_key_begins_with_is_no_prefix(prefix: str) -> None:
    with pytest.raises(BadKey):
        check_prefix(prefix)


@pytest.mark.parametrize("content_type", ["", "a/b\r\nX-Evil: 1", "模型/onnx", "a/" + "b" * 300])
def test_what_no_header_can_carry_is_no_content_type(content_type: str) -> None:
    with pytest.raises(BadInput):
        check_content_type(content_type)


@pytest.mark.parametrize(("start", "end"), [(0, None), (0, 1), (9, 10), (10, 20), (0, 0), (7, 3)])
def test_a_range_ends_with_the_object(start: int, end: int | None) -> None:
    first, stop = clamp_range(10, start, end)
    assert bytes(range(10))[first:stop] == bytes(range(10))[start:end]
