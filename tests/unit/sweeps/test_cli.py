"""The file of a sweep, and what is said of one that is none."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from app.kit.errors import BadRequest, ModelmillError
from app.sweeps.cli import _document, _find_id

if TYPE_CHECKING:
    from app.sweeps.client import SweepsClient

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


def test_a_sweep_is_named_by_the_beginning_of_its_id() -> None:
    ids = [f"{number}b" + "0" * 30 for number in range(3)]
    client = cast("SweepsClient", SimpleNamespace(sweeps=lambda limit: [{"sweep_id": sweep_id} for sweep_id in ids]))
    assert _find_id(client, "1B") == ids[1]
    assert _find_id(client, "f" * 32) == "f" * 32, "the service says whether there is one"
    for unknown in ("9", ""):
        with pytest.raises(ModelmillError, match="sweep"):
            _find_id(client, unknown)
