"""What the measurements read of processes: a wrong figure would be believed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ops.benchmarks.peers.table import MIB
from tests.harness import processes
from tests.harness.reused_pid import sleeping_with_pid


def test_the_cpu_time_of_another_process_is_what_it_has_used() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass\nprint(flush=True)\ninput()"
    with subprocess.Popen([sys.executable, "-c", burn], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as busy:
        assert busy.stdout and busy.stdout.readline()
        assert 0.3 <= processes.cpu_s([busy.pid]) < 5
        busy.communicate()


def test_the_processes_of_a_system_are_those_it_started_and_what_these_started() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & wait"], start_new_session=True) as shell:
        try:
            pids: set[int] = set()
            while len(pids) < 2:  # the shell takes a moment to start the other
                pids = processes.with_descendants([shell.pid])
            assert shell.pid in pids and os.getpid() not in pids
            assert 0 < processes.memory_bytes(pids) < 50 * MIB
        finally:
            os.killpg(shell.pid, 9)
    assert processes.cpu_s([shell.pid]) == 0
    assert processes.with_descendants([shell.pid]) == set()


def test_a_tracked_process_that_has_ended_is_never_another_one_with_its_pid() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        tracked = processes.Tracked(process.pid)
        assert tracked.is_alive()
        tracked.kill()
        process.wait()
    with sleeping_with_pid(process.pid) as other:
        assert not tracked.is_alive()
        tracked.kill()
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(0.1)
