"""Reserved ports: no other process gets one, and nothing of it stays behind."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.harness import ports


def reserves(port: int) -> bool:
    """Whether another process may have this one."""
    program = f"from tests.harness.ports import _reserve; print(_reserve({port}))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout == "True\n"


def test_a_port_is_given_once_and_is_free_again_when_its_process_has_ended() -> None:
    port = ports.free_port()
    assert not ports._reserve(port)
    assert not reserves(port)
    os.close(ports._reserved.pop(port))
    assert reserves(port)
    assert ports._reserve(port)
