"""What differs between tasks, and a task with other values."""

from __future__ import annotations

import pytest

from app.training.errors import BadSpec, UnreadableSpec
from app.training.spec import TaskSpec, read_spec
from app.training.spec.changes import apply_changes, differences

SFT = "workload: sft\nmodel_id: a/b\ntrain_file: /private/common/d\nn_gpus_per_node: 1\n"
FULL = f"{SFT}overrides: {{optim.lr: 1e-5, data.shuffle: true}}\nconvert: {{images: pictures}}\n"


def read(text: str) -> TaskSpec:
    return read_spec(text.encode())[0]


def told(*texts: str) -> dict[str, list[object]]:
    return {one.field: list(one.values) for one in differences([read(text) for text in texts])}


def test_the_same_task_written_otherwise_does_not_differ() -> None:
    assert told(SFT, f"# mine\nnnodes: 1\nname: other\n{SFT}") == {}


def test_each_field_that_differs_is_named_with_its_value_in_every_task() -> None:
    other = FULL.replace("1e-5", "2e-5").replace("pictures", "more")
    assert told(FULL, other, SFT) == {
        "overrides.optim.lr": [1e-5, 2e-5, None],
        "overrides.data.shuffle": [True, True, None],
        "convert.images": ["pictures", "more", None],
    }


def test_values_are_changed_added_and_taken_out() -> None:
    changes = {"total_epochs": 3, "overrides.optim.lr": 0.1, "overrides.data.shuffle": None, "convert.images": None}
    spec = apply_changes(read(FULL), {**changes, "convert": None})
    assert told(FULL, spec) == {
        "total_epochs": [None, 3],
        "overrides.optim.lr": [1e-5, 0.1],
        "overrides.data.shuffle": [True, None],
        "convert.images": ["pictures", None],
    }
    assert "overrides" not in apply_changes(read(SFT), {"overrides.optim.lr": None})


@pytest.mark.parametrize(
    "changes", [{"bogus": 1}, {"convert": "x", "convert.images": "y"}, {"overrides.trainer.nnodes": 2}]
)
def test_what_is_no_task_any_more_is_said_by_who_reads_it(changes: dict[str, object]) -> None:
    with pytest.raises(BadSpec):
        read(apply_changes(read(FULL), changes))  # type: ignore[arg-type]


def test_a_value_that_is_nested_too_deep_is_refused() -> None:
    deep: object = 1
    for _ in range(900):
        deep = [deep]
    with pytest.raises(UnreadableSpec, match="nested"):
        read(apply_changes(read(FULL), {"overrides.a.b": deep}))  # type: ignore[dict-item]
