"""A run of the tests that is ended from outside leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY
from tests.harness.processes import Tracked
from tests.harness.until import until

HOLDING = """
import multiprocessing.forkserver, os, subprocess, time
from pathlib import Path
import pytest
from tests.harness.forked import PRELOADED, Forked

PRELOADED[:] = ["tests.harness.first_process"]  # the programs need none of the rest

@pytest.fixture
def server():
    process = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    yield process
    process.kill()
    process.wait()

def test_holds(server, tmp_path):
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    program = Forked("holding:main", [os.getcwd()], environment=environment, log=tmp_path / "log")
    while not Path("below").exists():
        time.sleep(0.01)
    first = multiprocessing.forkserver._forkserver._forkserver_pid
    Path("pids.new").write_text(f"{server.pid} {first} {program.pid} {Path('below').read_text()}")
    Path("pids.new").rename("pids")
    time.sleep(3600)
"""
PROGRAM = """
import subprocess, sys, time
from pathlib import Path

def main():
    below = subprocess.Popen(["sleep", "3600"], start_new_session=True)
    draft = Path(sys.argv[1], "below.new")
    draft.write_text(str(below.pid))
    draft.rename(draft.with_suffix(""))
    time.sleep(3600)
"""


@contextmanager
def holding(folder: Path, processes: int) -> Iterator[tuple[subprocess.Popen[bytes], list[Tracked]]]:
    """A run that holds, and what it has started: a server, the process of the copies, a copy, and its child."""
    (folder / "test_holding.py").write_text(HOLDING)
    (folder / "holding.py").write_text(PROGRAM)
    run = subprocess.Popen(
        [
            *(sys.executable, "-m", "pytest", "--processes", str(processes)),
            *("-p", "tests.harness.parallel", "-p", "no:cacheprovider"),
            *("-c", os.devnull, "--rootdir", str(folder), "--basetemp", str(folder / "tmp")),
        ],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.DEVNULL,
    )
    try:
        pids = until(lambda: (folder / "pids").exists() and (folder / "pids").read_text().split())
        yield run, [Tracked(int(pid)) for pid in pids]
    finally:
        run.kill()
        run.wait()


@pytest.mark.parametrize("processes", [1, 2])
def test_sigterm_ends_it_as_ctrl_c_does(processes: int, tmp_path: Path) -> None:
    with holding(tmp_path, processes) as (run, started):
        run.send_signal(signal.SIGTERM)
        assert run.wait() == 2
        until(lambda: not any(process.is_alive() for process in started))


def test_a_run_that_is_killed_takes_the_copies_and_their_children_along(tmp_path: Path) -> None:
    with holding(tmp_path, 1) as (run, (server, *others)):
        run.kill()
        until(lambda: not any(process.is_alive() for process in others))
        server.kill()  # a program that is no copy: nobody can know
