"""Files with one JSON object, as commands read them."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.kit.cli.document_files import read_json
from app.kit.errors import BadRequest


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


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match="No such file"):
        read_json(str(tmp_path / "none.json"))
