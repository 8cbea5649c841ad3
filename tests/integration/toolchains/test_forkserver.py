"""What the fork server forks ends with its worker, however early that dies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.harness.until import PATIENCE_S

LIMITS = {"time_s": 60, "memory_bytes": 1 << 30, "disk_bytes": 1 << 30, "threads": 1}
NOT_YET_A_GROUP = f"""
import os, socket, time
from app.kit.sandbox import fork_server
from app.kit.sandbox.paths import SandboxPaths
fork_server._run = lambda *_: time.sleep(600)
ours, theirs = socket.socketpair()
null = os.open(os.devnull, os.O_WRONLY)
ours.close()
fork_server._supervise({{"limits": {LIMITS}}}, SandboxPaths(), theirs.detach(), os.dup(null), os.dup(null))
"""
HEARD_BY_NOBODY = f"""
import atexit, os
from app.kit.sandbox import fork_server
from app.kit.sandbox.paths import of_python
atexit.register(print, "at the interpreter's end", file=open("marker", "w", buffering=1))
reading, report = os.pipe()
os.close(reading)
if os.fork() == 0:
    request = {{"target": "builtins:print", "request": {{}}, "work_dir": ".", "limits": {LIMITS}}}
    fork_server._run(request, of_python(), os.open("log", os.O_WRONLY | os.O_CREAT), report)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_a_child_that_has_no_group_yet_is_killed_when_the_worker_is_gone() -> None:
    ended = subprocess.run([sys.executable, "-c", NOT_YET_A_GROUP], check=False, timeout=PATIENCE_S)
    assert ended.returncode == 0


def test_a_child_whose_result_nobody_hears_ends_at_once_and_not_as_an_interpreter(tmp_path: Path) -> None:
    """What libraries do at its end may wait for threads that a fork does not have."""
    ended = subprocess.run([sys.executable, "-c", HEARD_BY_NOBODY], cwd=tmp_path, check=False, timeout=PATIENCE_S)
    assert ended.returncode == 1
    assert (tmp_path / "marker").read_text() == ""
