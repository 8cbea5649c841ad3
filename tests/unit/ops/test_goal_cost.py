"""What a search is said to cost beside a plain conversion."""

from __future__ import annotations

import pytest

from ops.benchmarks.conversion import Plain
from ops.benchmarks.goal_cost import PLAIN, SEARCH, cost_of


def spent(onnx_s: float, bie_s: float) -> Plain:
    """By CPU; the wall time says otherwise."""
    return Plain({"onnx": 70.0, "bie": 1.0}, {"onnx": onnx_s, "bie": bie_s})


def test_the_cost_of_a_search_is_the_middle_round_of_all_stages_cpu_time() -> None:
    rounds = [
        {PLAIN: spent(1.0, 1.0), SEARCH: spent(1.0, 7.0)},
        {PLAIN: spent(1.0, 3.0), SEARCH: spent(2.0, 8.0)},
        {PLAIN: spent(9.0, 9.0), SEARCH: spent(9.0, 90.0)},
    ]
    cost = cost_of(rounds)
    assert (cost.plain_s, cost.goal_s, cost.bie_s) == (4.0, 10.0, 8.0)
    assert cost.ratio == pytest.approx(2.5)
