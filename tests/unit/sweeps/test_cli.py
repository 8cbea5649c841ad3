"""The file of a sweep, and what is said of one that is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.kit.errors import BadRequest
from app.sweeps.cli import _document

GOOD = "models:\n  - {model: a.onnx, images: p/}\noptions:\n  plain:\n"


def test_a_sweep_is_read(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(GOOD)
    assert _document(tmp_path / "s.yaml")["options"] == {"plain": None}


@pytest.mark.parametrize(
    "text", ["", "models: 3", "[1", "models: [{model: a}]\noptions: {}", "models: []\noptions: [a]", "models: {}"]
)
def test_what_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "s.yaml").write_text(text)
    with pytest.raises(BadRequest):
        _document(tmp_path / "s.yaml")
