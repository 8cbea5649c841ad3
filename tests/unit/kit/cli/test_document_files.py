"""Files with one JSON object, as commands read them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.kit.cli.document_files import read_file, read_json, read_text
from app.kit.errors import BadRequest, NotFound


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{,}", "line 1, column 2"),
        (b"[]", "not a JSON object"),
        (b"\xff\xfe{", "decode"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_without_a_json_object_is_refused_with_the_reason(tmp_path: Path, content: bytes, problem: str) -> None:
    file = tmp_path / "rules.json"
    file.write_bytes(content)
    with pytest.raises(BadRequest, match=problem):
        read_json(str(file))


@pytest.mark.parametrize("read", [read_file, read_text, read_json])
def test_a_missing_file_is_told_from_one_that_cannot_be_read(read: Callable[[str], object], tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        read(str(tmp_path / "none.json"))
    with pytest.raises(BadRequest, match="cannot be read: Is a directory"):
        read(str(tmp_path))
