"""What code in a model might try, run in the sandbox's child. Each answers {what it tried: how it ended}."""

from __future__ import annotations

import ctypes
import importlib
import mmap
import multiprocessing
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from app.conversion.toolchains.base import Progress
from app.kit.sandbox import kernel, seccomp

DONE = "done"
READ = "import sys; print(open(sys.argv[1]).read())"
NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
ATTACH = 16


def call_out(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    kinds = {"udp": socket.SOCK_DGRAM, "raw": socket.SOCK_RAW}
    return {
        "this machine": _tried(lambda: socket.create_connection(("127.0.0.1", request["port"]), 3)),
        "another": _tried(lambda: socket.create_connection(("1.1.1.1", 53), 3)),
        "by a path": _tried(lambda: socket.socket(socket.AF_UNIX).connect(request["path"])),
        "netlink": _tried(lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)),
        "ipv6": _tried(lambda: socket.create_connection(("::1", request["port"]), 3)),
        **{name: _tried(partial(socket.socket, socket.AF_INET, kind)) for name, kind in kinds.items()},
    }


def read_others(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    """request: {file: another job's}"""
    file = Path(request["file"])
    link = Path("link")
    link.symlink_to(file)
    return {
        "file": _tried(file.read_bytes),
        "by a link": _tried(link.read_bytes),
        "names": _tried(lambda: list(file.parent.iterdir())),
        "by a program": _tried(lambda: _ran(sys.executable, "-c", READ, file)),
        "shadow": _tried(Path("/etc/shadow").read_bytes),
        "home": _tried(lambda: list(Path.home().iterdir())),
    }


def answer_hugely(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    """In place of the small picture, a file without end that takes no room."""
    os.truncate(os.open(request["into"], os.O_CREAT | os.O_WRONLY), 1 << 40)
    return {}


def load(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    return {request["module"]: _tried(lambda: importlib.import_module(request["module"]))}


def change_others(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    """request: {file: another job's, library: one of the interpreter's}"""
    file = Path(request["file"])
    Path("own").write_text("a file of its own")
    return {
        "write": _tried(lambda: file.write_text("changed")),
        "make": _tried(lambda: file.with_name("made").touch()),
        "remove": _tried(file.unlink),
        "take": _tried(lambda: file.rename("taken")),
        "give": _tried(lambda: Path("own").rename(file.with_name("given"))),
        "link": _tried(lambda: Path("linked").hardlink_to(file)),
        "library": _tried(lambda: Path(request["library"]).open("ab")),
        "truncate": _tried(lambda: os.truncate(file, 0)),
    }


def change_modes(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    return {
        "mode": _tried(lambda: Path(request["file"]).chmod(0o777)),
        "times": _tried(lambda: os.utime(request["file"], (1, 1))),
    }


def meet_processes(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    """request: {pids: of its worker and of the fork server}"""
    outcomes = {}
    for pid in request["pids"]:
        outcomes[f"environment of {pid}"] = _tried(Path(f"/proc/{pid}/environ").read_bytes)
        outcomes[f"memory of {pid}"] = _tried(Path(f"/proc/{pid}/mem").read_bytes)
        outcomes[f"signal to {pid}"] = _tried(partial(os.kill, pid, 0))
    return outcomes


def rights(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    """What is left to it, and to what it starts: lines of their status, as the kernel has them."""
    started = subprocess.run(["/bin/cat", "/proc/self/status"], capture_output=True, text=True, check=True).stdout
    return {"own": Path("/proc/self/status").read_text(), "started": started}


def call_the_kernel(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    machine = seccomp.MACHINES[kernel.MACHINE]
    calls = seccomp.COMMON | (seccomp.X86_64 if kernel.MACHINE == "x86_64" else seccomp.AARCH64)
    buffer = ctypes.create_string_buffer(256)
    return {
        "ptrace": _tried(lambda: kernel.syscall(calls["ptrace"], ATTACH, os.getppid(), 0, 0)),
        "process_vm_readv": _tried(lambda: kernel.syscall(calls["process_vm_readv"], os.getpid(), 0, 0, 0, 0, 0)),
        "unshare": _tried(lambda: kernel.syscall(calls["unshare"], NEW_USER | NEW_NETWORK)),
        "clone": _tried(lambda: kernel.syscall(machine.clone, NEW_USER | signal.SIGCHLD, 0, 0, 0, 0) or os._exit(0)),
        "mount": _tried(lambda: kernel.mount("none", "/", "tmpfs")),
        "keyctl": _tried(lambda: kernel.syscall(calls["keyctl"], 0, -3, 0)),
        "bpf": _tried(lambda: kernel.syscall(calls["bpf"], 0, buffer, 128)),
        "perf_event_open": _tried(lambda: kernel.syscall(calls["perf_event_open"], buffer, 0, -1, -1, 0)),
        "userfaultfd": _tried(lambda: kernel.syscall(calls["userfaultfd"], 1)),
        "io_uring_setup": _tried(lambda: kernel.syscall(calls["io_uring_setup"], 1, buffer)),
        "clone3": _tried(lambda: kernel.syscall(machine.clone3, buffer, 88)),
    }


def compute(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    """What honest tools do."""
    import csv  # whatever was not loaded before

    assert csv.reader is not None
    return {
        "temporary file": _tried(lambda: tempfile.NamedTemporaryFile(dir=tempfile.gettempdir()).close()),
        "its place": str(Path(tempfile.gettempdir()).is_relative_to(Path.cwd())),
        "program": _tried(lambda: _ran("/bin/sh", "-c", "echo $TMPDIR > here; mkdir -p a/b; mv here a/b/there")),
        "random": _tried(lambda: Path("/dev/urandom").open("rb").read(8)),
        "null": _tried(lambda: Path("/dev/null").write_text("gone")),
        "cores": _tried(Path("/proc/cpuinfo").read_bytes),
        "memory map": _tried(lambda: mmap.mmap(-1, 4096)),
        "pipes": _tried(lambda: multiprocessing.get_context("fork").Pipe()),
        "sockets of a pair": _tried(socket.socketpair),
        "mode": _tried(lambda: Path("a").chmod(0o700)),
    }


def share_memory(request: dict[str, Any], progress: Progress) -> dict[str, str]:
    def square() -> None:
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(abs, [-1, -2]) == [1, 2]

    return {"pool": _tried(square)}


def _ran(*command: object) -> None:
    ended = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if ended.returncode:
        raise OSError(ended.stderr.strip().rpartition("\n")[2])


def _tried(action: Callable[[], Any]) -> str:
    try:
        action()
    except Exception as error:  # noqa: BLE001  # the test reads it
        return f"{type(error).__name__}: {error}"
    return DONE
