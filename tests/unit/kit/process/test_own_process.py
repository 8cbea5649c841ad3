"""Soft and hard limits of open files."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import os, resource
from app.kit.process import own_process
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 128))
assert own_process.raise_limit() == 128
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]
assert own_process.raise_limit() == 128
"""


def test_a_process_may_open_as_many_files_as_its_user() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
