"""The processes of demonstrations, real ones against a product that is not there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.demonstrations.errors import DemonstrationRefused
from app.demonstrations.service import DemoName, Demonstrations, DemoState, DemoView
from tests.harness.api import until

NOBODY = "http://127.0.0.1:9"
"""Where no product is."""


@pytest.fixture
def demonstrations(tmp_path: Path) -> Iterator[Demonstrations]:
    own = Demonstrations(tmp_path / "logs", is_offered=True)
    yield own
    own.close()


def of(demonstrations: Demonstrations, name: DemoName) -> DemoView:
    return next(view for view in demonstrations.views() if view.name is name)


def test_one_that_cannot_go_on_has_failed_and_says_why_to_open_pages_too_and_the_others_are_off(tmp_path: Path) -> None:
    states: list[DemoState] = []
    own = Demonstrations(
        tmp_path / "logs", is_offered=True, announce=lambda: states.append(of(own, DemoName.VIDEO).state)
    )
    try:
        own.start(DemoName.VIDEO, NOBODY)
        assert until(lambda: list(states), lambda seen: DemoState.FAILED in seen)
        assert f"nothing answers at {NOBODY}" in of(own, DemoName.VIDEO).lines[0]
        assert of(own, DemoName.JOINT) == DemoView(DemoName.JOINT, DemoState.OFF)
    finally:
        own.close()


def test_one_that_is_told_to_stop_ends_and_is_off(demonstrations: Demonstrations) -> None:
    demonstrations.start(DemoName.JOINT, NOBODY)
    demonstrations.start(DemoName.JOINT, NOBODY)
    demonstrations.stop(DemoName.JOINT)
    assert of(demonstrations, DemoName.JOINT).state is DemoState.ENDING
    assert until(lambda: of(demonstrations, DemoName.JOINT), lambda view: view.state is not DemoState.ENDING)


def test_where_accounts_are_demanded_none_begins(tmp_path: Path) -> None:
    refusing = Demonstrations(tmp_path / "logs", is_offered=False)
    with pytest.raises(DemonstrationRefused, match="accounts"):
        refusing.start(DemoName.JOINT, NOBODY)
    assert not (tmp_path / "logs").exists()


def test_what_a_demonstration_is_told_has_no_setting_and_no_secret_of_the_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.demonstrations import service

    told = service._environment({"MODELMILL_SECRET_KEY": "s", "MODELMILL_PORT": "1", "PATH": "/bin"})
    assert "/bin" in told.values()
    assert [name for name in told if name.startswith("MODELMILL_")] == []
