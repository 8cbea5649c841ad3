"""The digest of a file."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from app.kit.files.digest import sha256_of


@pytest.mark.parametrize("content", [b"", b"abc", b"x" * 1_000_001])
def test_it_is_the_sha256_of_its_content(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file").write_bytes(content)
    assert sha256_of(tmp_path / "file") == hashlib.sha256(content).hexdigest()
