"""The suite's own way to run tests in several processes tells what pytest tells in one, and loses no test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.harness.paths import REPOSITORY

CONFTEST = """
import os
from pathlib import Path
import pytest

@pytest.fixture(scope="session", autouse=True)
def process():
    yield
    Path(f"ended-{os.getpid()}").touch()

@pytest.fixture(autouse=True)
def noted(request):
    with open(request.path.stem + ".pids", "a") as log:
        print(os.getpid(), file=log)
"""
GOOD = """
def test_first(): print("said by the first")
def test_second(tmp_path): assert tmp_path.is_dir()
def test_third(capfd): print("three"); assert capfd.readouterr().out == "three\\n"
"""
BAD = """
import pytest, warnings
def test_fails(): print("what it printed"); assert 1 + 1 == 3
def test_is_skipped(): pytest.skip("for no reason")
def test_warns(): warnings.warn("a warning of a test")
"""
DEADLY = """
import os, signal
def test_before(): pass
def test_is_killed(): os.kill(os.getpid(), signal.SIGKILL)
def test_between(): pass
def test_is_interrupted(): raise KeyboardInterrupt
def test_exits(): os._exit(0)
def test_after(): pass
"""

HANGING = "import pytest, time\n@pytest.mark.timeout(1)\ndef test_hangs(): time.sleep(60)\n"
LEAVING = """
import os
from pathlib import Path
from tests.harness.forked import PRELOADED, Forked
PRELOADED.clear()  # the process needs none of that
def test_leaves_a_process(tmp_path):
    process = Forked("waiting:main", [], environment=os.environ | {"PYTHONPATH": os.getcwd()}, log=tmp_path / "log")
    Path("left.pid").write_text(str(process.pid))
"""
WAITING = "import time\ndef main(): time.sleep(3600)\n"


def run(folder: Path, *arguments: str, **files: str) -> tuple[int, str]:
    """Runs these files of tests in two processes; the exit code, and what is told."""
    for name, text in {"conftest": CONFTEST, **files}.items():
        (folder / f"{name}.py").write_text(text)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--processes", "2"),
            *("-p", "tests.harness.parallel", "-p", "no:cacheprovider"),
            *("-c", os.devnull, "--rootdir", str(folder), "--basetemp", str(folder / "tmp"), *arguments),
        ],
        cwd=folder,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def test_all_is_told_a_file_stays_in_one_process_and_who_dies_is_replaced(tmp_path: Path) -> None:
    good = {f"test_{number}": GOOD for number in range(3)}
    code, told = run(tmp_path, "-rs", test_bad=BAD, test_deadly=DEADLY, **good)
    assert code == 1
    assert "4 failed, 13 passed, 1 skipped, 1 warning" in told
    assert "assert (1 + 1) == 3" in told and "what it printed" in told and "said by the first" not in told
    assert "for no reason" in told and "UserWarning: a warning of a test" in told
    assert [f"ended with {code}" in told for code in (-9, 2, 0)] == [True] * 3
    processes = {path.stem: set(path.read_text().split()) for path in tmp_path.glob("*.pids")}
    assert {name: len(pids) for name, pids in processes.items()} == {name: 1 for name in good} | {
        "test_bad": 1,
        "test_deadly": 4,
    }
    ended = {path.name.removeprefix("ended-") for path in tmp_path.glob("ended-*")}
    killed = set.union(*processes.values()) - ended
    assert len(killed) == 2, "fixtures end with each process but those that could not help it"


def test_the_first_failure_ends_the_run_where_that_is_demanded(tmp_path: Path) -> None:
    failing = "def test_fails(): assert False\n" + "\n".join(f"def test_{n}(): pass" for n in range(1000))
    code, told = run(tmp_path, "-x", test_a=failing)
    assert code == 1
    assert "stopping after 1 failures" in told and "1000 passed" not in told


def test_what_cannot_be_collected_ends_the_run(tmp_path: Path) -> None:
    code, told = run(tmp_path, test_broken="import nothing_of_that_name", test_good=GOOD)
    assert code == 2
    assert "1 error" in told and not (tmp_path / "test_good.pids").exists()


def test_a_test_that_hangs_fails_for_its_time_and_no_process_that_tests_leave_is_waited_for(tmp_path: Path) -> None:
    code, told = run(tmp_path, "-p", "pytest_timeout", test_a=HANGING, test_b=LEAVING, waiting=WAITING)
    assert code == 1
    assert "Timeout (>1.0s)" in told and "1 failed, 1 passed" in told
    assert not Path("/proc", (tmp_path / "left.pid").read_text()).exists()
