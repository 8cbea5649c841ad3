"""Parts that are forked from a preloaded process: what they are told, how they end, and what becomes of the rest."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.standalone.data_folder import DataFolder
from app.standalone.process import Call, Parent, Part, tail
from app.standalone.supervisor import Supervisor
from tests.harness.paths import REPOSITORY
from tests.harness.until import PATIENCE_S, until

TARGETS = "tests.harness.forked_parts"


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    made = DataFolder(tmp_path, tmp_path / "run")
    made.prepare()
    return made


@pytest.fixture
def parent(folder: DataFolder) -> Parent:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    return Parent((TARGETS,), environment, REPOSITORY, folder.new_log("parent"))


@pytest.fixture
def supervisor(folder: DataFolder, parent: Parent) -> Iterator[Supervisor]:
    told = {"SECRET": "of the part", "PATH": os.environ["PATH"]}
    made = Supervisor(folder, lambda _: told, cwd=REPOSITORY, notice=notices.append, parent=parent)
    notices.clear()
    yield made
    if made.watched:
        made.stop(grace_s=0)


notices: list[str] = []


def part(function: str, **arguments: object) -> Part:
    return Part(function, (), call=Call(f"{TARGETS}:{function}", arguments))


def below(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def test_a_part_is_told_in_memory_what_it_needs_and_shows_its_name(supervisor, folder):
    supervisor.start([part("say", path=str(folder.root / "said"))])
    until(lambda: (folder.root / "said").exists() and (folder.root / "said").read_text())

    settings_told = json.loads((folder.root / "said").read_text())
    pid = below(supervisor.pids()["say"])
    assert settings_told["environment"] == {"SECRET": "of the part", "PATH": os.environ["PATH"]}
    assert "of the part" not in Path(f"/proc/{pid}/environ").read_text()
    assert Path(f"/proc/{pid}/comm").read_text().strip() == "say"
    assert Path(f"/proc/{pid}/cmdline").read_text().strip("\0") == "modelmill say"
    assert settings_told["session"] == supervisor.pids()["say"]


def test_a_part_that_ends_is_started_again_with_its_exit_code_told(supervisor):
    supervisor.start([part("fail", code=7)])
    until(lambda: any("exit code 7" in notice for notice in notices))
    until(lambda: supervisor.watched["fail"].failures >= 2)


def test_an_error_of_a_part_is_in_its_log(supervisor):
    supervisor.start([part("crash")])
    until(lambda: "RuntimeError: a fault of the part" in tail(supervisor.watched["crash"].log))


def test_a_killed_part_leaves_nothing_of_what_it_had_started(supervisor, folder):
    supervisor.start([part("start_another", path=str(folder.root / "pid"))])
    until(lambda: (folder.root / "pid").exists() and (folder.root / "pid").read_text())
    other = int((folder.root / "pid").read_text())

    os.kill(below(supervisor.pids()["start_another"]), signal.SIGKILL)
    until(lambda: not Path(f"/proc/{other}").exists())


def test_stopping_ends_a_part_by_sigterm_and_the_parent_with_it(supervisor, folder, parent):
    supervisor.start([part("obey", path=str(folder.root / "ended"))])
    pids = [*supervisor.pids().values(), parent.pid]
    until(lambda: "ready" in tail(supervisor.watched["obey"].log))
    supervisor.stop(grace_s=PATIENCE_S)

    assert (folder.root / "ended").read_text() == "by SIGTERM"
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_when_the_parent_is_killed_parts_run_on_and_what_ends_is_forked_from_another(supervisor, folder, parent):
    supervisor.start([part("obey", path=str(folder.root / "ended"))])
    until(lambda: "ready" in tail(supervisor.watched["obey"].log))
    before, subreaper = parent.pid, supervisor.pids()["obey"]

    os.kill(before, signal.SIGKILL)
    os.waitid(os.P_PID, before, os.WEXITED | os.WNOWAIT)
    assert supervisor.watched["obey"].failures == 0

    os.kill(below(subreaper), signal.SIGKILL)
    until(lambda: tail(supervisor.watched["obey"].log).count("ready") == 2)
    assert parent.pid != before
    assert supervisor.pids()["obey"] != subreaper


def test_what_cannot_be_preloaded_is_said_and_not_waited_for(folder):
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY)}
    parent = Parent(("no_such_module",), environment, REPOSITORY, folder.new_log("parent"))
    supervisor = Supervisor(folder, lambda _: {}, cwd=REPOSITORY, notice=notices.append, parent=parent)
    with pytest.raises(OSError, match="forked from has ended"):
        supervisor.start([part("say", path="")])
    supervisor.stop(grace_s=0)
    assert "no_such_module" in tail(folder.logs / "parent.log")
