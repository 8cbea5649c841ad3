"""The document of a sweep."""

from __future__ import annotations

import json

import pytest

from app.training.errors import BadSpec
from app.training.spec import read_spec
from app.training.spec.sweeps import read_sweep

SFT = "workload: sft\nmodel_id: a/b\ntrain_file: /private/common/d\nn_gpus_per_node: 1\n"


def test_each_combination_is_a_task_with_a_name_of_its_own() -> None:
    body = f"{SFT}name: rates\nvary: {{overrides.optim.lr: [1.0e-6, 1.0e-5], total_epochs: [1, 2]}}\n"
    specs = [read_spec(text.encode())[0] for text in read_sweep(body.encode())]
    assert [(spec.name, spec.overrides["optim.lr"], spec.total_epochs) for spec in specs] == [
        ("rates · lr=1e-06 total_epochs=1", 1e-6, 1),
        ("rates · lr=1e-06 total_epochs=2", 1e-6, 2),
        ("rates · lr=1e-05 total_epochs=1", 1e-5, 1),
        ("rates · lr=1e-05 total_epochs=2", 1e-5, 2),
    ]


def test_other_overrides_stay_and_json_is_taken_too() -> None:
    task = {"workload": "sft", "model_id": "a/b", "train_file": "/private/common/d", "n_gpus_per_node": 1}
    vary = {"vary": {"overrides.optim.lr": [1e-6]}, "overrides": {"data.shuffle": True}}
    (text,) = read_sweep(json.dumps(task | vary).encode())
    assert read_spec(text.encode())[0].overrides == {"data.shuffle": True, "optim.lr": 1e-6}


def test_so_many_are_drawn_by_chance() -> None:
    body = f"{SFT}vary: {{overrides.optim.lr: {{low: 1.0e-6, high: 1.0e-4, log: true}}}}\nsearch: random\nmost: 7\n"
    assert len(set(read_sweep(body.encode()))) == 7


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("", "vary"),
        ("vary: {}", "vary"),
        ("vary: {total_epochs: []}", "vary"),
        ("vary: {total_epochs: [1, 2, 3, 4, 5, 6, 7, 8], save_freq: [1, 2, 3, 4, 5, 6, 7]}", "these are 56"),
        ("vary: {overrides.optim.lr: {low: 1.0e-6, high: 1.0e-4}}", "search: random"),
        ("vary: {overrides.optim.lr: {low: 0.0, high: 1.0e-4, log: true}}\nsearch: random", "above zero"),
        ("vary: {overrides.optim.lr: {low: 1.0, high: 1.0}}\nsearch: random", "below high"),
        ("vary: {total_epochs: [1]}\nsearch: magic", "search"),
        ("vary: {total_epochs: [1]}\nmost: 51", "most"),
    ],
)
def test_what_is_no_sweep_is_refused(rest: str, reason: str) -> None:
    with pytest.raises(BadSpec, match=reason):
        read_sweep(f"{SFT}{rest}\n".encode())


def test_a_field_that_there_is_not_is_refused_as_in_a_task() -> None:
    (text,) = read_sweep(f"{SFT}vary: {{trian_file: [a]}}\n".encode())
    with pytest.raises(BadSpec, match="did you mean train_file"):
        read_spec(text.encode())
