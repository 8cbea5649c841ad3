"""Runs a function in a confined child process with limits, and reports its outcome as one error.

A crash, an endless loop or running out of memory in the function is an exception here, never the end of this process.
`fork_server` creates the child; this side reads its log, its progress and its result, and can stop it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from app.kit.errors import Unavailable
from app.kit.process.spawn import python_module, spawn
from app.kit.sandbox import disk_usage
from app.kit.sandbox.errors import StageCrashed
from app.kit.sandbox.leftovers import keep_plain_files
from app.kit.sandbox.messages import RunRequest
from app.kit.sandbox.paths import SandboxPaths
from app.kit.sandbox.run import Finished, Hooks, Limits, Run, end, follow, judge
from app.kit.text.json_values import JsonObject

__all__ = ["AS_ROOT", "NOWHERE", "Finished", "Hooks", "Limits", "Sandbox", "SandboxBusy"]

START_TRIES = 2
PATIENCE_S = 20.0
MOST_WAITING = 20
"""Fewer than the threads that a web process answers with: however many checks run, pages find a thread."""
AS_ROOT = (
    "This process runs as root, and so does every conversion it starts: a hostile model that breaks out of its "
    "toolchain owns the machine. Run Modelmill as a user of its own, which needs no rights but to its data folder."
)
NOWHERE = SandboxPaths()
logger = logging.getLogger(__name__)


class SandboxBusy(Unavailable, code="SANDBOX_BUSY"): ...


class Sandbox:
    """One fork server and the runs in its children. Safe to use from several threads.

    Args:
        at_once: maximum number of concurrent runs; further ones wait, but few and not long, because each holds a
            thread.
        libraries: modules that the fork server loads once, so that no run waits for them; `start` may replace them.
        keep_out: folders that no run may read, except for its own; relevant if they are beside programs.
        idle_s: after this many seconds without a run the fork server ends and releases its memory, and is started again
            when a run needs it; 0: `start` starts it and it stays.
    """

    def __init__(
        self, *, at_once: int = 1, keep_out: Sequence[Path] = (), libraries: Sequence[str] = (), idle_s: float = 0.0
    ) -> None:
        self._idle_s = idle_s
        self._runs = 0
        self._rest: threading.Timer | None = None
        self._keep_out = tuple(map(str, keep_out))
        self._libraries = libraries
        self._room = threading.BoundedSemaphore(at_once)
        self._waiting = threading.BoundedSemaphore(MOST_WAITING)
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self, libraries: Sequence[str] | None = None, *, at_once: int | None = None) -> None:
        """Starts the fork server now, so that the first run does not wait for its imports.

        Args:
            libraries: modules that it loads once, replacing the earlier ones; a run loads others itself.
            at_once: replaces the earlier number.
        """
        if at_once is not None:
            self._room = threading.BoundedSemaphore(at_once)
        if libraries is not None:
            self._libraries = libraries
        if os.geteuid() == 0:
            logger.warning(AS_ROOT)
        if not self._idle_s:
            with self._lock:
                self._ensure_server()

    def close(self) -> None:
        """Ends the fork server. Current runs end with it, because their sockets close."""
        with self._lock:
            self._stop_rest()
            self._end_server()

    def _end_server(self) -> None:
        server = self._server
        self._forget_server()
        if server is not None:
            server.wait()

    def _stop_rest(self) -> None:
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    @contextlib.contextmanager
    def _busy(self) -> Iterator[None]:
        """The fork server may end if no run is active, and not before it has been idle for a while."""
        with self._lock:
            self._runs += 1
            self._stop_rest()
        try:
            yield
        finally:
            with self._lock:
                self._runs -= 1
                if self._idle_s and not self._runs:
                    self._rest = threading.Timer(self._idle_s, self._rest_now)
                    self._rest.daemon = True
                    self._rest.start()

    def _rest_now(self) -> None:
        with self._lock:
            if not self._runs:
                self._end_server()

    def run(
        self,
        target: str,
        request: JsonObject,
        *,
        work_dir: Path,
        limits: Limits,
        hooks: Hooks | None = None,
        places: SandboxPaths = NOWHERE,
    ) -> Finished:
        """Calls a function in a child. It can reach work_dir, this interpreter with its libraries, and the places, as
        far as the kernel can enforce this. Afterwards work_dir has no links to what is outside of it.

        Args:
            target: "module:function", called as function(request, progress).
            request: JSON, its only input.
            hooks: None: no callbacks, no cancellation.
            places: additional paths that it may read or write.

        Raises:
            SandboxBusy: The maximum number of runs is active.
            ModelmillError: Any error of this kind that the function raised.
            StageCrashed, StageOutOfMemory, StageOutOfDisk, StageTimedOut, StageCancelled: It ended in another way.
            StageFailed: Any other exception of the function.
        """
        if not self._has_room():
            raise SandboxBusy("Too many files are being checked here just now.", hint="Try again in a moment.")
        try:
            inputs_bytes = disk_usage.measure_stored(str(work_dir))
            added_bytes = limits.disk_bytes or disk_usage.allowance(work_dir, inputs_bytes)
            limits = replace(limits, disk_bytes=added_bytes)
            also = places.beside(self._keep_out)
            message: RunRequest = {
                "target": target,
                "request": request,
                "work_dir": str(work_dir),
                "limits": {
                    "memory_bytes": limits.memory_bytes,
                    "time_s": limits.time_s - limits.used_s,
                    "threads": limits.threads,
                    "disk_bytes": inputs_bytes + added_bytes,
                },
                "reads": also.reads,
                "writes": also.writes,
            }
            with self._busy():
                return self._run(message, limits, hooks or Hooks())
        finally:
            keep_plain_files(work_dir)
            self._room.release()

    def _has_room(self) -> bool:
        if self._room.acquire(blocking=False):
            return True
        if not self._waiting.acquire(blocking=False):
            return False
        try:
            return self._room.acquire(timeout=PATIENCE_S)
        finally:
            self._waiting.release()

    def _run(self, message: RunRequest, limits: Limits, hooks: Hooks) -> Finished:
        ours, theirs = socket.socketpair()
        log_read, log_write = os.pipe()
        report_read, report_write = os.pipe()
        try:
            with os.fdopen(os.memfd_create("request"), "w") as request:
                json.dump(message, request)
                request.flush()
                self._order([theirs.fileno(), log_write, report_write, request.fileno()])
        finally:
            theirs.close()
            os.close(log_write)
            os.close(report_write)
        run = Run(ours, log_read, report_read, limits, hooks)
        try:
            follow(run)
        except BaseException:
            end(run)
            raise
        finally:
            ours.close()
            os.close(log_read)
            os.close(report_read)
        return judge(run)

    def _order(self, descriptors: list[int]) -> None:
        for attempt in range(START_TRIES):
            with self._lock:
                control = self._ensure_server()
                try:
                    socket.send_fds(control, [b"!"], descriptors)
                    return
                except OSError:
                    self._end_server()
                    if attempt + 1 == START_TRIES:
                        raise StageCrashed("the sandbox process could not be started") from None

    def _ensure_server(self) -> socket.socket:
        if self._server is not None and self._control is not None and self._server.poll() is None:
            return self._control
        self._forget_server()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            folders = os.pathsep.join(self._keep_out)
            command = python_module("app.kit.sandbox.fork_server", str(number), folders, *self._libraries)
            self._server = spawn(command, env=child_environment(os.environ), pass_fds=[number])
        self._control = ours
        return ours

    def _forget_server(self) -> None:
        if self._control is not None:
            self._control.close()
        self._server = self._control = None


PASSED_ON = re.compile(
    r"PATH|HOME|USER|LOGNAME|SHELL|PWD|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|TMPDIR|PYTHONPATH|LD_LIBRARY_PATH|LD_PRELOAD|"
    r"(CUDA|NVIDIA|OMP|MKL|OPENBLAS|MALLOC|CONDA|KNERON|KTC)_[A-Z0-9_]+"
)
"""The variables that a child gets from us."""
ADDED = {
    # A stage allocates the same tensors repeatedly: glibc keeps them instead of returning each to the kernel.
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONUNBUFFERED": "1",
}
PROGRAM = str(Path(__file__).parents[3])
"""The folder of `app`: set explicitly, because a worker may be started in anybody's folder."""


def child_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a child: of ours only the variables that PASSED_ON names, none with a secret."""
    passed_on = {name: value for name, value in ours.items() if PASSED_ON.fullmatch(name)}
    path = os.pathsep.join(filter(None, (PROGRAM, passed_on.get("PYTHONPATH"))))
    return {**passed_on, **ADDED, "PYTHONPATH": path}
