"""The processes of demonstrations, real ones against a product that is not there."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from app.demonstrations.errors import DemonstrationRefused
from app.demonstrations.service import DemoName, Demonstrations, DemoState, DemoView
from app.standalone.data_folder import DataFolder, Lock
from app.standalone.extras import ensure_extra, requirements
from app.standalone.launch import TRAINING_SIGNAL
from tests.harness.until import until

NOBODY = "http://127.0.0.1:9"
"""Where no product is."""


@pytest.fixture
def demonstrations(tmp_path: Path) -> Iterator[Demonstrations]:
    own = Demonstrations(tmp_path / "logs", is_offered=True)
    yield own
    own.close()


def of(demonstrations: Demonstrations, name: DemoName) -> DemoView:
    return next(view for view in demonstrations.views() if view.name is name)


@pytest.mark.slow
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
    pidfd = demonstrations._runs[DemoName.JOINT].process.pidfd
    signal.pidfd_send_signal(pidfd, signal.SIGSTOP)
    demonstrations.stop(DemoName.JOINT)
    assert of(demonstrations, DemoName.JOINT).state is DemoState.ENDING
    signal.pidfd_send_signal(pidfd, signal.SIGCONT)
    assert until(lambda: of(demonstrations, DemoName.JOINT), lambda view: view.state is not DemoState.ENDING)


@pytest.mark.parametrize(
    ("is_told", "number", "state"),
    [
        (True, signal.SIGTERM, DemoState.OFF),
        (True, signal.SIGKILL, DemoState.FAILED),
        (False, signal.SIGTERM, DemoState.FAILED),
    ],
)
def test_one_that_is_told_to_stop_before_it_can_handle_that_has_not_failed(
    demonstrations: Demonstrations, is_told: bool, number: signal.Signals, state: DemoState
) -> None:
    demonstrations.start(DemoName.JOINT, NOBODY)
    run = demonstrations._runs[DemoName.JOINT]
    run.process.kill()
    until(lambda: not run.process.is_running(), what="it has ended")
    run.process.returncode, run.is_ending = -number, is_told
    assert of(demonstrations, DemoName.JOINT).state is state


def test_where_accounts_are_demanded_none_begins(tmp_path: Path) -> None:
    refusing = Demonstrations(tmp_path / "logs", is_offered=False)
    with pytest.raises(DemonstrationRefused, match="accounts"):
        refusing.start(DemoName.JOINT, NOBODY)
    assert not (tmp_path / "logs").exists()


def test_what_a_demonstration_is_told_has_no_setting_and_no_secret_of_the_product(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app.demonstrations import service

    told = service._build_environment({"MODELMILL_SECRET_KEY": "s", "MODELMILL_PORT": "1", "PATH": "/bin"})
    assert "/bin" in told.values()
    assert [name for name in told if name.startswith("MODELMILL_")] == []


def test_training_is_set_up_where_a_stack_runs_that_can_start_a_cluster_and_nowhere_else(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path, tmp_path / "run")
    folder.prepare()
    own = Demonstrations(tmp_path / "logs", is_offered=True, run=folder.run)
    assert not of(own, DemoName.TRAINING).is_offered
    lock = Lock(folder)
    assert of(own, DemoName.TRAINING).is_offered
    lock.release()
    for refusing in (own, Demonstrations(tmp_path / "logs", is_offered=True)):
        with pytest.raises(DemonstrationRefused, match="cannot start a Ray cluster"):
            refusing.start(DemoName.TRAINING, NOBODY)
    with pytest.raises(DemonstrationRefused, match="accounts") as refused:
        Demonstrations(tmp_path / "logs", is_offered=False, run=folder.run).start(DemoName.TRAINING, NOBODY)
    assert refused.value.hint == ""


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="without Ray it would be installed")
def test_the_running_stack_is_told_to_start_training(tmp_path: Path) -> None:
    folder = DataFolder(tmp_path, tmp_path / "run")
    folder.prepare()
    lock = Lock(folder)
    told: list[int] = []
    before = signal.signal(TRAINING_SIGNAL, lambda number, _frame: told.append(number))
    own = Demonstrations(tmp_path / "logs", is_offered=True, run=folder.run)
    try:
        own.start(DemoName.TRAINING, NOBODY)
        assert until(lambda: list(told), bool) == [TRAINING_SIGNAL]
        assert until(lambda: of(own, DemoName.TRAINING), lambda view: view.state is DemoState.OFF)
    finally:
        own.close()
        signal.signal(TRAINING_SIGNAL, before)
        lock.release()


def test_what_an_extra_needs_is_read_from_the_installation() -> None:
    packages = list(requirements("train"))
    assert any(package.startswith("ray[default]") for package in packages)
    assert not any(";" in package or "onnx" in package for package in packages)
    assert [package.partition("<")[0].partition(">")[0] for package in requirements("edge")] == ["av"]


def test_an_extra_that_is_missing_and_unknown_is_not_installed(capfd: pytest.CaptureFixture[str]) -> None:
    assert ensure_extra("edge", "json")
    assert not ensure_extra("no-such-extra", "no_such_module")
    assert "Install the extra `no-such-extra`" in capfd.readouterr().out
