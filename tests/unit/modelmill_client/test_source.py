"""The client that waits is made from the one to be awaited."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from tests.harness.paths import REPOSITORY

ROOT = REPOSITORY / "ops" / "packages" / "modelmill-client"
PACKAGE = ROOT / "modelmill_client"


def generator() -> Any:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "generate.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.filterwarnings("ignore:The distutils package")  # unasync imports setuptools
def test_what_was_generated_is_what_would_be(tmp_path: Path) -> None:
    generator().generate(tmp_path)
    made = {path.name: path.read_text() for path in tmp_path.glob("*.py")}
    assert made == {path.name: path.read_text() for path in (PACKAGE / "_sync").glob("*.py")}
