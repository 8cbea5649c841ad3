"""How fast the machine is decides no test."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@given(st.none())
def test_no_example_of_hypothesis_is_too_slow(_: None) -> None:
    now = settings.default
    assert now.deadline is None and HealthCheck.too_slow in now.suppress_health_check
