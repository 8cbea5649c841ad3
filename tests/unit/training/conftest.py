"""Fixtures of the unit tests: a scheduler of training before a scripted cluster."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.homes.model import HomesOptions
from app.homes.service import Homes
from app.kit.sql import Database
from tests.harness.migrated import migrated_database
from tests.harness.training.scripted_ray import Bench, ScriptedRay


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = migrated_database(tmp_path / "db")
    yield made
    made.close()


@pytest.fixture
def ray() -> ScriptedRay:
    """A cluster of one node with eight GPUs that does what the test says."""
    return ScriptedRay(8)


@pytest.fixture
def bench(database: Database, tmp_path: Path, ray: ScriptedRay) -> Bench:
    """The scheduler of training before that cluster."""
    return Bench(database, tmp_path / "homes", ray)


@pytest.fixture
def homes(tmp_path: Path, database: Database) -> Homes:
    """Data homes of which alice has one."""
    made = Homes(HomesOptions(tmp_path / "homes"), database, None)
    made.files.create("alice")
    return made
