"""`modelmill video demo`: a job, its rules and their events by a real broker, from one command."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.kit.cli.command import Exit
from tests.harness.demonstration import demonstration
from tests.harness.mosquitto import require_mosquitto


@pytest.mark.exhaustive
def test_each_of_its_rules_makes_an_event_that_comes_by_mqtt_and_it_ends_by_itself(tmp_path: Path) -> None:
    """As README has it."""
    require_mosquitto()
    with demonstration("video", tmp_path, "--once") as (demo, output):
        shown = output.read()
        assert demo.wait(60) == Exit.OK, shown
    assert "those below have come from there" in shown and "/ui/video/GLOBAL_ID_1.SUB_ID_1" in shown
    assert "passer-by: face crossed gate to the right" in shown and "face in row" in shown
    assert shown.splitlines()[-1] == "Everything is stopped."
