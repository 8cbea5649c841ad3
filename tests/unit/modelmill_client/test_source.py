"""The client that waits is made from the one to be awaited."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY

ROOT = REPOSITORY / "ops" / "packages" / "modelmill-client"
PACKAGE = ROOT / "modelmill_client"


@pytest.mark.slow
def test_what_was_generated_is_what_would_be(tmp_path: Path) -> None:
    """In a process of its own: setuptools, which unasync imports, takes the place of the whole process's distutils."""
    subprocess.run([sys.executable, ROOT / "generate.py", tmp_path], check=True)
    made = {path.name: path.read_text() for path in tmp_path.glob("*.py")}
    assert made == {path.name: path.read_text() for path in (PACKAGE / "_sync").glob("*.py")}
