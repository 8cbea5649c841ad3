"""What a report says of goal, search and judgement; older reports say nothing."""

from __future__ import annotations

from typing import Any

from app.conversion.service.quality import choose_layers, report_reader
from app.conversion.service.quality.goal import read_goal, read_judgement, read_sensitivity

BIE: dict[str, Any] = {
    "goal": {
        "text": "snr>=20",
        "kind": "snr",
        "threshold": 20.0,
        "budget_s": 600,
        "is_reached": False,
        "reason_code": "budget",
        "reason_params": {"s": 600},
    },
    "search": {
        "elapsed_s": 41.2,
        "ended_by": "budget",
        "candidates": [{"id": 0, "name": "int8", "snr_db": 17.2, "is_taken": True, "verdict_code": "taken"}],
        "sensitivity": [
            {"tensor": "t", "layer": "a", "snr_db": 23.0},
            {"tensor": "u", "layer": "a", "snr_db": 13.0},
            {"tensor": "v", "layer": "b", "snr_db": None},
        ],
    },
    "judgement": {
        "calibrate": 30,
        "choose": 10,
        "report": 10,
        "is_own_set": False,
        "n": 10,
        "mean_db": 21.3,
        "low_db": 20.1,
        "high_db": 22.6,
        "altered_db": 20.4,
        "is_met": True,
        "task": {"kind": "top1", "float_agreement": 0.97, "n": 10},
    },
    "quality": {"layers": [{"name": "b", "snr_db": 5.0}, {"name": "a", "snr_db": 30.0}]},
}


def test_the_goal_and_the_judgement_are_read_with_their_numbers() -> None:
    goal, judgement = read_goal(BIE), read_judgement(BIE)
    assert goal is not None and (goal.text, goal.threshold, goal.is_reached, goal.reason_code) == (
        "snr>=20",
        20.0,
        False,
        "budget",
    )
    assert judgement is not None and (judgement.low_db, judgement.high_db, judgement.n) == (20.1, 22.6, 10)
    assert judgement.altered_db == 20.4
    assert judgement.task is not None and judgement.task.float_agreement == 0.97
    assert judgement.p5_db is None


def test_a_layer_is_as_sensitive_as_its_worst_tensor() -> None:
    assert read_sensitivity(BIE) == {"a": 13.0}


def test_a_tensor_belongs_to_the_layer_that_makes_it() -> None:
    layers = [{"name": "conv", "tensor": "t", "snr_db": 30.0}]
    assert read_sensitivity({**BIE, "quality": {"layers": layers}}) == {"conv": 23.0, "a": 13.0}


def test_a_report_without_them_has_none() -> None:
    assert read_goal({}) is None and read_judgement({}) is None and read_sensitivity({}) == {}
    task = {"judgement": {**BIE["judgement"], "task": {"kind": None}}}
    judgement = read_judgement(task)
    assert judgement is not None and judgement.task is None


def test_layers_are_ordered_by_their_own_error_where_it_was_measured() -> None:
    quality = report_reader.quality(None, BIE, None, toolchain="host")
    assert quality.search is not None and quality.search.taken is not None
    assert [layer.name for layer in choose_layers(quality, "alone", "all")] == ["a", "b"]
    assert [layer.name for layer in choose_layers(quality, "worst", "all")] == ["b", "a"]
