"""The document of a sweep."""

from __future__ import annotations

import json

import pytest

from app.training.errors import BadSpec
from app.training.spec import read_spec
from app.training.spec.sweeps import read_sweep, read_task_or_sweep

SFT = "workload: sft\nmodel_id: a/b\ntrain_file: /private/common/d\nn_gpus_per_node: 1\n"


def texts(body: str) -> list[str]:
    document = read_sweep(body.encode())
    return [document.task_text(point) for point in document.points]


def test_each_combination_is_a_task_with_a_name_of_its_own() -> None:
    body = f"{SFT}name: rates\nvary: {{overrides.optim.lr: [1.0e-6, 1.0e-5], total_epochs: [1, 2]}}\n"
    specs = [read_spec(text.encode())[0] for text in texts(body)]
    assert [(spec.name, spec.overrides["optim.lr"], spec.total_epochs) for spec in specs] == [
        ("rates · lr=1e-06 total_epochs=1", 1e-6, 1),
        ("rates · lr=1e-06 total_epochs=2", 1e-6, 2),
        ("rates · lr=1e-05 total_epochs=1", 1e-5, 1),
        ("rates · lr=1e-05 total_epochs=2", 1e-5, 2),
    ]


def test_other_overrides_stay_and_json_is_taken_too() -> None:
    task = {"workload": "sft", "model_id": "a/b", "train_file": "/private/common/d", "n_gpus_per_node": 1}
    vary = {"vary": {"overrides.optim.lr": [1e-6]}, "overrides": {"data.shuffle": True}}
    (text,) = texts(json.dumps(task | vary))
    assert read_spec(text.encode())[0].overrides == {"data.shuffle": True, "optim.lr": 1e-6}


def test_so_many_are_drawn_by_chance() -> None:
    body = f"{SFT}vary: {{overrides.optim.lr: {{low: 1.0e-6, high: 1.0e-4, log: true}}}}\nsearch: random\nmost: 7\n"
    assert len(set(texts(body))) == 7


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
        ("vary: {total_epochs: [1]}\nsearch: optuna", "metric"),
        ("vary: {total_epochs: [1]}\nearly_stop: {min_steps: 3}", "metric"),
        ("vary: {total_epochs: [1]}\nmetric: speed", "set goal"),
        ("vary: {total_epochs: [1]}\ngoal: minimize", "needs a metric"),
    ],
)
def test_what_is_no_sweep_is_refused(rest: str, reason: str) -> None:
    with pytest.raises(BadSpec, match=reason):
        read_sweep(f"{SFT}{rest}\n".encode())


def test_a_field_that_there_is_not_is_refused_as_in_a_task() -> None:
    with pytest.raises(BadSpec, match="did you mean train_file"):
        read_task_or_sweep(f"{SFT}vary: {{trian_file: [a]}}\n".encode())


def test_arguments_of_a_program_vary_one_by_one() -> None:
    body = "workload: script\ncode_path: /private/common/code/a\nargs: [--lr=9, --wide]\nvary: {args.lr: [1.0e-3, 2]}\n"
    args = [read_spec(text.encode())[0].args for text in texts(body)]
    assert args == [["--wide", "--lr=0.001"], ["--wide", "--lr=2"]]


def test_whole_ends_stand_for_whole_numbers() -> None:
    body = f"{SFT}vary: {{total_epochs: {{low: 1, high: 3}}}}\nsearch: random\n"
    assert sorted(read_spec(text.encode())[0].total_epochs or 0 for text in texts(body)) == [1, 2, 3]


def test_a_task_without_vary_is_no_sweep() -> None:
    spec, text, sweep = read_task_or_sweep(SFT.encode())
    assert (spec.model_id, text, sweep) == ("a/b", SFT, None)
