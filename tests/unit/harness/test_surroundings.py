"""How fast the machine is decides no test."""

from __future__ import annotations

import httpx
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.harness.until import PATIENCE_S


@given(st.none())
def test_no_example_of_hypothesis_is_too_slow(_: None) -> None:
    now = settings.default
    assert now.deadline is None and HealthCheck.too_slow in now.suppress_health_check


def test_an_answer_may_take_its_time_unless_a_limit_is_named() -> None:
    with httpx.Client() as usual, httpx.Client(timeout=3) as limited:
        assert (usual.timeout, limited.timeout) == (httpx.Timeout(PATIENCE_S), httpx.Timeout(3))
