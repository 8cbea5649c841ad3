"""The supervisor, with real processes that stand in for the parts."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.standalone.data_folder import DataFolder
from app.standalone.process import Part, tail
from app.standalone.supervisor import Supervisor
from tests.harness.until import PATIENCE_S, until

SLEEPER = Part("sleeper", ("sh", "-c", "echo started; exec sleep 1000"))
FAILING = Part("failing", ("sh", "-c", "exit 5"))
DEAF = Part("deaf", ("sh", "-c", "trap '' TERM; echo started; while :; do sleep 0.1; done"))


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path, tmp_path / "run")
    made.prepare()
    return made


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def supervisor(folder: DataFolder, notices: list[str]) -> Iterator[Supervisor]:
    made = Supervisor(folder, lambda _: os.environ, cwd=folder.root, notice=notices.append)
    yield made
    if made.watched:
        made.stop(grace_s=0)


def has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_a_part_that_ends_is_started_again_and_told(supervisor, notices):
    supervisor.start([SLEEPER])
    first = supervisor.pids()["sleeper"]

    os.kill(first, signal.SIGKILL)
    until(lambda: supervisor.pids().get("sleeper", first) != first)

    assert "sleeper ended unexpectedly" in notices[0]


def test_a_part_that_fails_at_once_is_tried_with_growing_pauses(supervisor):
    supervisor.start([FAILING])
    watched = supervisor.watched["failing"]

    until(lambda: watched.failures >= 3)

    assert watched.pause_s >= 0.8


def test_a_part_that_cannot_start_does_not_keep_others_from_starting(supervisor):
    supervisor.start([Part("missing", ("/no/such/command",)), SLEEPER])

    until(lambda: "started" in tail(supervisor.watched["sleeper"].log))


def test_a_part_that_is_replaced_has_ended_before_its_successor_starts_and_its_end_is_no_failure(supervisor, notices):
    bystander = Part("bystander", SLEEPER.command)
    supervisor.start([SLEEPER, bystander])
    before = supervisor.pids()

    supervisor.replace([Part("sleeper", ("sh", "-c", "echo again; exec sleep 1000")), Part("new", SLEEPER.command)], 1)

    after = supervisor.pids()
    assert has_ended(before["sleeper"]) and set(after) == {"sleeper", "bystander", "new"}
    assert after["bystander"] == before["bystander"]
    until(lambda: "again" in tail(supervisor.watched["sleeper"].log))
    assert notices == []


def test_a_part_that_is_replaced_just_before_the_supervisor_waits_for_it(supervisor, monkeypatch):
    may_wait, waits, real = threading.Event(), threading.Event(), select.select

    def gated(*arguments):
        if threading.current_thread() is supervisor._thread and arguments[3] is None:  # not a look at one process
            waits.set()
            assert may_wait.wait(PATIENCE_S)
        return real(*arguments)

    def starting(parts):
        may_wait.set()  # between the end of the old one and the start of the new one
        waits.clear()
        until(lambda: waits.is_set() or not supervisor._thread.is_alive())
        Supervisor.start(supervisor, parts)

    supervisor.start([SLEEPER])
    monkeypatch.setattr(select, "select", gated)
    os.write(supervisor._wake, b".")
    until(waits.is_set)
    monkeypatch.setattr(supervisor, "start", starting)
    supervisor.replace([SLEEPER], 1)
    assert supervisor._thread.is_alive()


def test_stopping_ends_every_process_it_started_and_no_other(supervisor):
    bystander = subprocess.Popen(["sleep", "1000"])
    supervisor.start([SLEEPER, Part("other", SLEEPER.command)])
    pids = list(supervisor.pids().values())

    supervisor.stop(grace_s=PATIENCE_S)

    assert all(map(has_ended, pids))
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


def test_a_part_that_does_not_listen_is_killed_after_the_grace(supervisor):
    supervisor.start([DEAF])
    pid = supervisor.pids()["deaf"]
    until(lambda: "started" in tail(supervisor.watched["deaf"].log))

    supervisor.stop(grace_s=0.1)

    assert has_ended(pid)


@pytest.mark.slow
def test_hurrying_takes_away_the_grace(supervisor):
    supervisor.start([DEAF])
    pid = supervisor.pids()["deaf"]
    until(lambda: "started" in tail(supervisor.watched["deaf"].log))

    supervisor.hurry()
    supervisor.stop(grace_s=1000)

    assert has_ended(pid)


def test_what_others_lean_on_is_stopped_after_them(supervisor, folder):
    note = folder.root / "order"
    script = f"trap 'echo NAME >> {note}; exit 0' TERM; echo started; while :; do sleep 0.05; done"
    supervisor.start(
        [
            Part("base", ("sh", "-c", script.replace("NAME", "base")), is_last=True),
            Part("top", ("sh", "-c", script.replace("NAME", "top"))),
        ]
    )
    for watched in supervisor.watched.values():
        until(lambda log=watched.log: "started" in tail(log))

    supervisor.stop(grace_s=PATIENCE_S)

    assert note.read_text().split() == ["top", "base"]
