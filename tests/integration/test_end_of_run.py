"""A run of the tests that is ended from outside leaves no process behind."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.harness.paths import REPOSITORY
from tests.harness.processes import Tracked
from tests.harness.until import until
from tests.harness.variants import exhaustive

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


PYTHON = f"""#!/bin/sh
case "$*" in *"-m pip "*) ;; *) exec {shlex.quote(sys.executable)} "$@" ;; esac
"""
CHECK = """#!/bin/sh
sleep 3600 &
echo $! >"check-$2.new" && mv "check-$2.new" "check-$2.pid"
wait
"""


def pytest_command(processes: int) -> list[str]:
    return [sys.executable, "-m", "pytest", "--processes", str(processes), "--basetemp", "tmp"]


@contextmanager
def holding(folder: Path, command: list[str]) -> Iterator[tuple[subprocess.Popen[bytes], list[Tracked]]]:
    """A run that holds, and what it has started: a server, the process of the copies, a copy, and its child."""
    (folder / "test_holding.py").write_text(HOLDING)
    (folder / "holding.py").write_text(PROGRAM)
    run = subprocess.Popen(
        [
            *("env", "--default-signal=HUP"),  # nohup ignores it, and no script below could change that
            *(*command, "-p", "tests.harness.parallel", "-p", "no:cacheprovider"),
            *("-c", os.devnull, "--rootdir", str(folder)),
        ],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        pids = until(lambda: (folder / "pids").exists() and (folder / "pids").read_text().split())
        yield run, [Tracked(int(pid)) for pid in pids]
    finally:
        run.kill()
        run.wait()


@pytest.mark.parametrize("processes", [2, *exhaustive(1)])
def test_sigterm_ends_it_as_ctrl_c_does(processes: int, tmp_path: Path) -> None:
    with holding(tmp_path, pytest_command(processes)) as (run, started):
        run.send_signal(signal.SIGTERM)
        assert run.wait() == 2
        until(lambda: not any(process.is_alive() for process in started))


def test_a_run_that_is_killed_takes_the_copies_and_their_children_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # where it leaves the socket of its copies
    with holding(tmp_path, pytest_command(1)) as (run, (server, *others)):
        run.kill()
        until(lambda: not any(process.is_alive() for process in others))
        server.kill()  # a program that is no copy: nobody can know


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """With `ops/test`, for which everything is installed; its checks hold, too."""
    for path in ("pyproject.toml", "ops/lib.sh", "ops/test", *(f"ops/requirements{of}.lock" for of in ("", "-test"))):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        shutil.copy(REPOSITORY / path, tmp_path / path)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name, text in (("python", PYTHON), ("poe", CHECK)):
        program = tmp_path / ".venv" / "bin" / name
        program.write_text(text)
        program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize(
    ("to", "number"),
    [
        pytest.param(os.kill, signal.SIGTERM, id="SIGTERM", marks=pytest.mark.exhaustive),
        pytest.param(os.kill, signal.SIGHUP, id="SIGHUP", marks=pytest.mark.exhaustive),
        pytest.param(os.killpg, signal.SIGTERM, id="SIGTERM of timeout", marks=pytest.mark.exhaustive),
        pytest.param(os.killpg, signal.SIGINT, id="Ctrl-C"),
    ],
)
def test_a_signal_ends_ops_test_and_what_it_has_begun(
    to: Callable[[int, int], None], number: int, checkout: Path
) -> None:
    with holding(checkout, ["ops/test", "--quick"]) as (run, started):
        checks = [checkout / f"check-{name}.pid" for name in ("lint", "types", "imports")]
        started += [Tracked(int(until(lambda file=file: file.exists() and file.read_text()))) for file in checks]
        to(run.pid, number)
        run.wait()
        until(lambda: not any(process.is_alive() for process in started))
        assert run.returncode == 128 + number


@pytest.mark.exhaustive
def test_the_tests_end_with_ops_test_if_it_is_killed(checkout: Path) -> None:
    with holding(checkout, ["ops/test", "--quick"]) as (run, started):
        run.kill()
        until(lambda: not any(process.is_alive() for process in started))
        for check in checkout.glob("check-*.pid"):
            os.kill(int(check.read_text()), signal.SIGKILL)
