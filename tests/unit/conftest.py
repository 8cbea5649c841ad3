"""Fixtures of the unit tests: the shared folder of real models and pictures, which is never copied into the project."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder with models/ and images/ beside the repository."""
    if not SHARED.is_dir():
        pytest.skip(f"real models are needed: {SHARED} is not there")
    return SHARED
