"""Tries forbidden operations in a confined process: what the kernel really blocks, whatever its version."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.kit.sandbox import kernel, seccomp
from app.kit.text.json_values import JsonObject

TRACE_ME = 0


def attempt(request: JsonObject, _progress: Any) -> dict[str, bool]:
    """Tries operations that a sandbox should forbid.

    Args:
        request: file: a foreign file; port: an open port of this machine; pid: the process that started it.

    Returns:
        For each part, whether it was blocked.
    """
    number = seccomp.MACHINES[kernel.MACHINE].trace if kernel.MACHINE in seccomp.MACHINES else None
    return {
        "files": _is_refused(lambda: Path(request["file"]).read_bytes()),
        "network": _is_refused(lambda: socket.create_connection(("127.0.0.1", request["port"]), 5).close()),
        "processes": _is_refused(lambda: Path(f"/proc/{request['pid']}/environ").read_bytes())
        and _is_refused(lambda: os.kill(request["pid"], 0)),
        "system calls": number is not None and _is_refused(lambda: kernel.syscall(number, TRACE_ME, 0, 0, 0)),
    }


def _is_refused(action: Callable[[], Any]) -> bool:
    try:
        action()
    except OSError:
        return True
    return False
