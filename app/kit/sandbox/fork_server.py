"""The small process that runs stages in children of its own: `python -m app.kit.sandbox.fork_server FD FOLDERS NAME…`

It imports the libraries of these names once and calls `rehearse` of those that have one; each run is a fork, so it
starts in milliseconds. FOLDERS are folders that no run may read, except for its own. Every run has a supervisor between
the fork server and the child that does the work:

    worker ── control socket ── fork server ── fork ── supervisor ── fork ── child (own process group, confined)
       └────────── job socket ─────────────────────────────┘

The supervisor is the child's subreaper: whatever the tool starts, even in another session, becomes the supervisor's
own child when its parent dies, and is killed before the run is reported as over. It monitors time, memory and
disk, and the job socket: if the worker is gone, it ends the run. It does nothing else; the worker interprets the
outcome.

Supervisor and child share namespaces that hold nothing else; only the child is restricted in files and system calls.
Features that the kernel lacks are skipped: `modelmill health sandbox` lists them.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from typing import Any, NoReturn

from app.kit.process.own_process import without_collector
from app.kit.sandbox import disk_usage, kernel, landlock, namespaces, process_tree, seccomp
from app.kit.sandbox.messages import RunOutcome, RunRequest
from app.kit.sandbox.paths import SHARED_MEMORY, SandboxPaths, of_python

TEMPORARY = ".tmp"
DESCRIPTORS = 4
"""With an order: of the run its socket, its log and its report, and a file in memory with the request as JSON, which
may be longer than a message of a socket."""
TICK_S = 0.1
DISK_TICK_S = 0.5
DISK_SHARE = 0.02
"""Of the time is spent on measuring a work folder, at most."""
TERM_GRACE_S = 1.5


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    for number in (signal.SIGINT, signal.SIGTERM):  # the end of the worker is the only signal to end
        signal.signal(number, signal.SIG_IGN)
    given = namespaces.available()
    namespaces.enter(given)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps supervisors
    try:
        with without_collector():
            for name in sys.argv[3:]:
                getattr(importlib.import_module(name), "rehearse", lambda: None)()
    except Exception as error:  # noqa: BLE001  # whatever a library raises, it is reported
        traceback.print_exc()
        _refuse(control, f"{type(error).__name__}: {error}")
    python = of_python().beside(filter(None, sys.argv[2].split(os.pathsep)))
    gc.freeze()  # a garbage collection in a child would touch, and so copy, every page of these
    while True:
        order, descriptors, _, _ = socket.recv_fds(control, 1, DESCRIPTORS)
        if not order:
            os._exit(0)  # the worker is gone
        with open(descriptors.pop(), "rb") as file:
            file.seek(0)  # the position is common to both processes
            request: RunRequest = json.load(file)
        try:
            child = _fork(request, given)
        except OSError:  # no process can be created: the worker gets no result
            traceback.print_exc()
            child = -1
        if child == 0:
            control.close()
            _supervise(request, _build_paths(request, given, python), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _refuse(control: socket.socket, reason: str) -> NoReturn:
    """Answers the runs that wait with the reason why none can begin, and ends: the next run starts a new server."""
    while True:
        order, descriptors, _, _ = socket.recv_fds(control, 1, DESCRIPTORS)
        if not order:
            os._exit(1)
        control.shutdown(socket.SHUT_RD)  # whoever sends from now on sees it; what was sent before is still read
        answer = json.dumps({"why": "unprepared", "reason": reason}).encode()
        with contextlib.suppress(OSError), socket.socket(fileno=descriptors[0]) as job:
            job.sendall(answer)
        for descriptor in descriptors[1:]:
            os.close(descriptor)


def _fork(request: RunRequest, given: int) -> int:
    writes = [request["work_dir"], *request["writes"]]
    return namespaces.fork(given, writes, memory_bytes=request["limits"]["memory_bytes"])


def _build_paths(request: RunRequest, given: int, python: SandboxPaths) -> SandboxPaths:
    """What the child may reach. Shared memory only if it is not that of all processes."""
    shared = (SHARED_MEMORY,) if given & namespaces.MOUNTS else ()
    return python + SandboxPaths(tuple(request["reads"]), (), (request["work_dir"], *request["writes"], *shared))


def _supervise(request: RunRequest, places: SandboxPaths, job_fd: int, log_fd: int, report_fd: int) -> NoReturn:
    started = time.monotonic()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    kernel.adopt_orphans()
    child = os.fork()
    if child == 0:
        os.close(job_fd)
        _run(request, places, log_fd, report_fd)
    os.close(log_fd)
    os.close(report_fd)
    job = socket.socket(fileno=job_fd)
    why, peak = _watch(child, job, request, started)
    if why != "exited":
        _stop_group(child, grace_s=TERM_GRACE_S if why in {"cancelled", "timeout"} else 0)
    status = _reap_all(child)
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    outcome: RunOutcome = {
        "why": why,
        "status": os.waitstatus_to_exitcode(status),
        "peak_bytes": max(peak, usage.ru_maxrss * 1024),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
        "wall_s": round(time.monotonic() - started, 3),
    }
    with contextlib.suppress(OSError):
        job.sendall(json.dumps(outcome).encode())
    os._exit(0)


def _watch(child: int, job: socket.socket, request: RunRequest, started: float) -> tuple[str, int]:
    """Waits until the child ends or must end. Returns why, and the peak memory (bytes, whole process tree)."""
    pidfd = os.pidfd_open(child)
    limits = request["limits"]
    peak, measure_at = 0, started
    while True:
        waited_for: list[Any] = [pidfd, job]
        readable = select.select(waited_for, [], [], TICK_S)[0]
        if pidfd in readable:
            return "exited", peak
        if job in readable:
            return ("cancelled" if _is_word(job) else "deserted"), peak
        if time.monotonic() - started > limits["time_s"]:
            return "timeout", peak
        peak = max(peak, process_tree.measure_memory(os.getpid()))
        if peak > limits["memory_bytes"]:
            return "memory", peak
        now = time.monotonic()
        if now >= measure_at:
            if _measure_stored(request["work_dir"]) > limits["disk_bytes"]:
                return "disk", peak
            measure_at = time.monotonic() + max(DISK_TICK_S, (time.monotonic() - now) / DISK_SHARE)


def _measure_stored(work_dir: str) -> int:
    return disk_usage.measure_stored(work_dir) + disk_usage.nameless(process_tree.list_monitored(os.getpid()))


def _is_word(job: socket.socket) -> bool:
    """Whether the worker has sent a message, or is gone."""
    try:
        return bool(job.recv(16))
    except ConnectionResetError:
        return False


def _run(request: RunRequest, places: SandboxPaths, log_fd: int, report_fd: int) -> NoReturn:
    """In the child: becomes the leader of a group, sets the limits, calls the target, reports once."""
    os.setsid()
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
    sys.stderr = sys.stdout
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    limits = request["limits"]
    resource.setrlimit(resource.RLIMIT_DATA, (limits["memory_bytes"], limits["memory_bytes"]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limits["disk_bytes"], limits["disk_bytes"]))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = str(limits["threads"])
    report = os.fdopen(report_fd, "wb", buffering=0)
    status = 1
    try:
        _confine(request["work_dir"], places)
        status = _call(request, report)
    finally:  # also if nobody receives it: at exit, libraries wait for threads that a fork does not have
        os._exit(status)


def _confine(work_dir: str, places: SandboxPaths) -> None:
    """Runs last before the target: from here on neither this process nor its children can gain rights."""
    os.chdir(work_dir)
    os.makedirs(TEMPORARY, 0o700, exist_ok=True)
    tempfile.tempdir = os.environ["TMPDIR"] = os.path.realpath(TEMPORARY)
    kernel.drop_rights()
    landlock.restrict(places)
    seccomp.restrict()


def _call(request: RunRequest, report: Any) -> int:
    from app.kit.errors import ModelmillError

    def tell(**message: Any) -> None:
        report.write(json.dumps(message).encode() + b"\n")

    def progress(fraction: float, message: str = "") -> None:
        tell(progress=max(0.0, min(1.0, fraction)), message=message)

    try:
        module, _, name = request["target"].partition(":")
        tell(result=getattr(importlib.import_module(module), name)(request["request"], progress))
    except ModelmillError as error:
        print(f"error: {error.message}" + (f"\nhint: {error.hint}" if error.hint else ""))
        tell(error=error.to_dict())
    except MemoryError as error:
        tell(out_of_memory=str(error) or "an allocation failed")
    except BaseException as error:  # noqa: BLE001  # the edge of the process: whatever it is, it is reported
        _report_unexpected(error, tell)
    sys.stdout.flush()
    return 0


def _report_unexpected(error: BaseException, tell: Any) -> None:
    traceback.print_exc(file=sys.stdout)
    text = f"{type(error).__name__}: {error}"
    if os.strerror(errno.EFBIG) in text:
        tell(out_of_disk=text)
        return
    is_memory = any(sign in text for sign in ("bad_alloc", "bad allocation", "Failed to allocate memory"))
    tell(**({"out_of_memory": text} if is_memory else {"unexpected": text}))


def _stop_group(child: int, grace_s: float) -> None:
    """Sends SIGTERM, waits a moment, then sends SIGKILL, to the child's group."""
    if grace_s:
        _signal_group(child, signal.SIGTERM)
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and process_tree.list_all(os.getpid()):
            if os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                break
            time.sleep(0.02)
    _signal_group(child, signal.SIGKILL)


def _signal_group(child: int, number: int) -> None:
    try:
        os.killpg(child, number)
    except ProcessLookupError:  # it has no group yet: it was forked a moment ago
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, number)


def _reap_all(child: int) -> int:
    """Reaps the child, then kills and reaps every descendant it left. Returns the child's wait status."""
    status = -1
    while True:
        try:
            pid, wait_status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                _kill_tree(spared=child if status == -1 else 0)
                pid, wait_status = os.waitpid(-1, 0)
        except ChildProcessError:
            return status
        if pid == child:
            status = wait_status


def _kill_tree(spared: int) -> None:
    for pid in process_tree.list_all(os.getpid()):
        if pid != spared:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
