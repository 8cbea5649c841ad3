"""When a stage that ends its processes is paused."""

from __future__ import annotations

import pytest

from app.edge.video.stage_host.errors import StagePaused
from app.edge.video.stage_host.stage_breakers import StageBreakers


def test_a_stage_rests_after_three_ends_in_a_row_and_is_then_on_trial() -> None:
    breakers = StageBreakers(errors=3, pause_s=30)
    for moment in (0, 1):
        breakers.failed("a", moment)
    breakers.succeeded("a")
    for moment in (2, 3, 4):
        breakers.check("a", moment)
        breakers.failed("a", moment)
    with pytest.raises(StagePaused, match="3 processes in a row and rests for 20 s"):
        breakers.check("a", 14)
    breakers.check("b", 14)
    breakers.check("a", 34)
    breakers.failed("a", 35)
    with pytest.raises(StagePaused):
        breakers.check("a", 36)
    breakers.check("a", 65)
    breakers.succeeded("a")
    breakers.failed("a", 66)
    breakers.check("a", 66)
