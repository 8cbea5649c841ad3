"""What the sandbox tests run in the child: each does one harm."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from app.conversion.errors import NotFinite
from app.conversion.toolchains.base import Progress

STUBBORN = "import os, signal, time; os.setsid(); signal.signal(15, signal.SIG_IGN); time.sleep(600)"

rehearsed_in: list[int] = []
"""Processes that called rehearse()."""


def rehearse() -> None:
    rehearsed_in.append(os.getpid())


def rehearsals(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    return {"elsewhere": [pid != os.getpid() for pid in rehearsed_in]}


def answer(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    progress(0.5, "half")
    print("a line of the log")
    return {"seen": request, "cwd": str(Path.cwd()), "group": os.getpgid(0) == os.getpid()}


def say_and_hang(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    print("begun", flush=True)
    time.sleep(600)
    return {}


def crash(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    os.kill(os.getpid(), signal.SIGSEGV)
    return {}


def eat_memory(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    held = []
    while True:
        held.append(bytearray(8_000_000))


def eat_memory_in_children(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Three processes, each below the limit for one, together above it."""
    limit = resource.getrlimit(resource.RLIMIT_DATA)[0]
    code = (
        f"import time\nheld = bytearray({limit // 2})\nfor i in range(0, len(held), 4096): held[i] = 1\ntime.sleep(600)"
    )
    children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(3)]
    return {"codes": [child.wait() for child in children]}


def write_a_large_file(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    with Path("large").open("wb") as file:
        file.write(bytes(request["bytes"]))
    return {}


def write_a_large_file_in_a_child(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """As a native tool does, it ends by the signal, and with it this process."""
    code = f"open('large', 'wb').write(bytes({request['bytes']}))"
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, "-c", f"import signal; signal.signal(25, signal.SIG_DFL); {code}"])


def write_many_files(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Each below the limit for one, together above it."""
    Path("below").mkdir()
    for number in range(request["files"]):
        Path("below", str(number)).write_bytes(bytes(request["bytes"]))
    time.sleep(600)
    return {}


def write_nameless_files(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    held = []
    for _ in range(request["files"]):
        held.append(Path("nameless").open("wb"))  # noqa: SIM115
        held[-1].write(bytes(request["bytes"]))
        held[-1].flush()
        Path("nameless").unlink()
    time.sleep(600)
    return {}


def hang(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Ignores SIGTERM, and has a child in a session of its own that does, too."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    lock = _take(request["lock"])
    subprocess.Popen([sys.executable, "-c", STUBBORN], pass_fds=[lock])
    os.write(lock, b"both hold it")
    progress(0.1, "hanging")
    time.sleep(600)
    return {}


def leave_a_child(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    subprocess.Popen([sys.executable, "-c", STUBBORN], pass_fds=[_take(request["lock"])])
    return {}


def _take(path: str) -> int:
    """A lock that is free again when the last process that has the descriptor is gone: process ids that a child sees
    may be its own view."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def refuse(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    raise NotFinite("output x is NaN", hint="look at sample 3", detail={"sample": 3})


def stumble(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    raise ValueError("nobody foresaw this")


def leave(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    os._exit(3)


def exit_politely(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    sys.exit("as the vendor's simulator does")


def talk_much(request: dict[str, Any], progress: Progress) -> dict[str, Any]:
    for _ in range(1000):
        print("x" * 1000)
    return {"large": ["y" * 1000] * 1000}
