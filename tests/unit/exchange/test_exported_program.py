"""Files that are no exported program."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from app.exchange.converters.exported_program import convert
from app.exchange.errors import BadSource


def refusal(path: Path) -> str:
    with pytest.raises(BadSource) as caught:
        convert({"model": str(path), "into": str(path.with_suffix(".onnx"))}, None)
    return str(caught.value)


def test_what_is_no_zip_is_refused_without_pytorch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # an import of it fails
    (tmp_path / "bad.pt2").write_bytes(b"no program")
    assert "it is no zip" in refusal(tmp_path / "bad.pt2")


@pytest.mark.exhaustive
def test_a_zip_of_something_else_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with zipfile.ZipFile(tmp_path / "bad.pt2", "w") as file:
        file.writestr("a.txt", "no program")
    assert "no exported program" in refusal(tmp_path / "bad.pt2")
