"""Fixtures of the unit tests: a scheduler of training before a scripted cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.kit.sql import Database
from tests.harness.training.scripted_ray import Bench, ScriptedRay


@pytest.fixture
def ray() -> ScriptedRay:
    """A cluster of one node with eight GPUs that does what the test says."""
    return ScriptedRay(8)


@pytest.fixture
def bench(database: Database, tmp_path: Path, ray: ScriptedRay) -> Bench:
    """The scheduler of training before that cluster."""
    return Bench(database, tmp_path / "homes", ray)
