"""docs/training.md says what there is."""

from __future__ import annotations

import re

import pytest

from app.training.model import FailureKind, State
from app.training.spec import TaskSpec, read_spec
from tests.harness.paths import REPOSITORY

TEXT = (REPOSITORY / "docs" / "training.md").read_text()


@pytest.mark.parametrize("name", TaskSpec.model_fields)
def test_every_field_of_a_task_is_explained(name: str) -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("|")]
    assert any(f"`{name}`" in row.split("|")[1] for row in rows)


def test_the_example_is_a_task() -> None:
    example = re.search(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    assert example is not None
    spec, _ = read_spec(example[1].encode())
    assert spec.convert is not None


@pytest.mark.parametrize("word", [*State, *(kind for kind in FailureKind if kind is not FailureKind.CANCELED)])
def test_every_state_and_every_failure_is_named(word: str) -> None:
    assert word in TEXT
