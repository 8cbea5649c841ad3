"""What the sandbox enforces on this machine, determined by a test run."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

from app.kit.sandbox.runner import Limits, Sandbox

PROBE = "app.kit.sandbox.probe:attempt"
LIMITS = Limits(memory_bytes=1 << 30, time_s=30, threads=1)
GIVEN_BY = {
    "files": "Landlock",
    "network": "seccomp, or namespaces of users and networks",
    "processes": "Landlock of Linux 6.12, or namespaces of users and processes",
    "system calls": "seccomp",
}
"""Part → the kernel feature it needs."""


def confinement(sandbox: Sandbox) -> dict[str, bool]:
    """Part → whether it is enforced. Raises the errors of Sandbox.run."""
    with tempfile.TemporaryDirectory(prefix="modelmill-") as folder, socket.create_server(("127.0.0.1", 0)) as listener:
        file, work = Path(folder, "another"), Path(folder, "work")
        file.write_text("not for the child")
        work.mkdir()
        request = {"file": str(file), "port": listener.getsockname()[1], "pid": os.getpid()}
        return dict(sandbox.run(PROBE, request, work_dir=work, limits=LIMITS).result)
