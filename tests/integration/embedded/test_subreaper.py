"""The subreaper, with real processes: nothing that a command started outlives the command or the supervisor."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.standalone import subreaper
from tests.harness.processes import is_alive
from tests.harness.until import until

SUBREAPER = Path(subreaper.__file__)
NESTED = """
import os, subprocess, sys, time
below = subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(os.getpid(), below.pid, flush=True)
time.sleep({pause})
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("deaf", flush=True)
time.sleep(1000)
"""
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print("polite", flush=True)
time.sleep(1000)
"""
SUPERVISOR = """
import os, subprocess, sys
lifeline, end = os.pipe()
subprocess.Popen([sys.executable, "-I", "-S", sys.argv[1], str(lifeline), "--", *sys.argv[2:]],
                 pass_fds=[lifeline], start_new_session=True)
os.close(lifeline)
import time
time.sleep(1000)
"""


class ReapedCommand:
    """A command under a subreaper whose lifeline this test holds."""

    def __init__(self, *command: str) -> None:
        self.lifeline, self.end = os.pipe()
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(SUBREAPER), str(self.lifeline), "--", *command],
            pass_fds=[self.lifeline],
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()
        os.close(self.lifeline)
        if self.end >= 0:
            os.close(self.end)


@pytest.fixture
def reaped() -> Iterator[Callable[..., ReapedCommand]]:
    made: list[ReapedCommand] = []

    def make(*command: str) -> ReapedCommand:
        made.append(ReapedCommand(*command))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_the_exit_code_of_the_command_is_the_subreapers(reaped):
    assert reaped("sh", "-c", "exit 3").process.wait() == 3


def test_a_command_killed_by_a_signal_is_told_as_a_shell_would(reaped):
    assert reaped("sh", "-c", "kill -9 $$").process.wait() == 128 + signal.SIGKILL


def test_a_command_that_is_not_there_is_said_so(reaped):
    assert reaped("/no/such/command").process.wait() == subreaper.NO_SUCH_COMMAND


def test_what_a_command_leaves_behind_in_another_session_dies_with_it(reaped):
    one = reaped(sys.executable, "-c", NESTED.format(pause=0))
    _, below = map(int, one.line().split())

    assert one.process.wait() == 0
    assert not is_alive(below)


def test_when_the_command_is_killed_its_children_die(reaped):
    one = reaped(sys.executable, "-c", NESTED.format(pause=1000))
    command, below = map(int, one.line().split())

    os.kill(command, signal.SIGKILL)

    one.process.wait()
    assert not is_alive(below)


def test_when_the_lifeline_ends_everything_below_dies(reaped):
    one = reaped(sys.executable, "-c", NESTED.format(pause=1000))
    pids = list(map(int, one.line().split()))

    os.close(one.end)
    one.end = -1

    one.process.wait()
    assert not any(map(is_alive, pids))


def test_when_the_supervisor_is_killed_nothing_is_left():
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(SUBREAPER), sys.executable, "-c", NESTED.format(pause=1000)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert supervisor.stdout
    pids = list(map(int, supervisor.stdout.readline().split()))

    supervisor.kill()
    supervisor.wait()

    until(lambda: not any(map(is_alive, pids)))
    supervisor.stdout.close()


def test_when_the_subreaper_itself_is_killed_the_command_dies(reaped):
    one = reaped("sh", "-c", "echo $$; sleep 1000")
    command = int(one.line())

    one.process.kill()
    one.process.wait()

    until(lambda: not is_alive(command))


def test_the_first_sigterm_reaches_the_command(reaped):
    one = reaped(sys.executable, "-c", POLITE)
    assert one.line() == "polite"

    one.process.terminate()

    assert one.process.wait() == 7


def test_the_second_sigterm_kills_a_command_that_does_not_listen(reaped):
    one = reaped(sys.executable, "-c", DEAF)
    assert one.line() == "deaf"

    one.process.terminate()
    with pytest.raises(subprocess.TimeoutExpired):
        one.process.wait(0.2)
    one.process.terminate()

    assert one.process.wait() == 128 + signal.SIGKILL
