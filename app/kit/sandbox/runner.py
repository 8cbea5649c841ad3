"""Runs a function in a confined child process with limits, and says in one error what became of it.

A crash, an endless loop or an out-of-memory of the function is an exception here, never the end of this process.
The child itself is made by `forkserver`; this side reads its log, its progress and its result, and can stop it.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from app.kit.errors import ModelmillError, Unavailable
from app.kit.sandbox.environment import child_environment
from app.kit.sandbox.errors import StageCancelled, StageCrashed, StageFailed, StageOutOfMemory, StageTimedOut
from app.kit.sandbox.paths import SandboxPaths

POLL_S = 0.25
READ_BYTES = 1 << 16
START_TRIES = 2
PATIENCE_S = 20.0
END_S = 10.0
AS_ROOT = (
    "This process runs as root, and so does every conversion it starts: a hostile model that breaks out of its "
    "toolchain owns the machine. Run Modelmill as a user of its own, which needs no rights but to its data folder."
)
LESS_MEMORY = "Use fewer or smaller reference images or fewer threads, or ask the operator for a higher limit."
NOWHERE = SandboxPaths()
logger = logging.getLogger(__name__)


class SandboxBusy(Unavailable):
    code = "SANDBOX_BUSY"


@dataclass(frozen=True)
class Limits:
    """memory_bytes: private memory of the child and all it starts. time_s: wall clock. threads: CPU threads it uses."""

    memory_bytes: int
    time_s: float
    threads: int


@dataclass
class Hooks:
    """What the caller wants to hear while the child runs. should_stop is asked every POLL_S seconds."""

    on_log: Callable[[bytes], None] = lambda _: None
    on_progress: Callable[[float, str], None] = lambda *_: None
    should_stop: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class Finished:
    """result: what the function returned. cpu_s, wall_s, peak_bytes: of the child and all it started."""

    result: dict[str, Any]
    cpu_s: float
    wall_s: float
    peak_bytes: int


@dataclass
class _Run:
    job: socket.socket
    log: int
    report: int
    limits: Limits
    hooks: Hooks
    messages: bytearray = field(default_factory=bytearray)
    last: dict[str, Any] = field(default_factory=dict)
    outcome: bytes = b""
    stopping: bool = False


class Sandbox:
    """One fork server and the runs in its children. Safe to use from several threads.

    at_once: so many runs may be under way; further ones wait, but not long, for they hold a thread each.
    libraries: modules that the fork server loads once, so that no run waits for them; `start` may name others.
    keep_out: folders that no run reads, but for its own; matters where they lie beside programs.
    idle_s: after so long without a run the fork server ends and gives back its memory, and it is started when a run
    needs it; 0: it is started by `start` and stays.
    """

    def __init__(
        self,
        *,
        at_once: int = 1,
        keep_out: Sequence[Path] = (),
        libraries: Sequence[str] = (),
        idle_s: float = 0.0,
    ) -> None:
        self._idle_s = idle_s
        self._runs = 0
        self._rest: threading.Timer | None = None
        self._keep_out = tuple(map(str, keep_out))
        self._libraries = libraries
        self._room = threading.BoundedSemaphore(at_once)
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self, libraries: Sequence[str] | None = None, *, at_once: int | None = None) -> None:
        """Start the fork server now, so that the first run does not wait for its imports.

        libraries: modules that it loads once, in place of those named before; a run loads others itself.
        at_once: in place of the number named before.
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
        """End the fork server. Runs under way end with it, since their sockets close."""
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
        """The fork server may rest when no run is under way, and not before it has been idle for a while."""
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
        request: dict[str, Any],
        *,
        work_dir: Path,
        limits: Limits,
        hooks: Hooks | None = None,
        places: SandboxPaths = NOWHERE,
    ) -> Finished:
        """Call target ("module:function", as function(request, progress)) in a child.

        It reaches work_dir, this interpreter with its libraries, and the places, as far as the kernel can hold it.
        Raises SandboxBusy; what the function raised if that is a ModelmillError; StageCrashed, StageOutOfMemory,
        StageTimedOut or StageCancelled for the other ends; StageFailed for an exception that it did not foresee.
        """
        if not self._room.acquire(timeout=PATIENCE_S):
            raise SandboxBusy("Too many files are being checked here just now.", hint="Try again in a moment.")
        try:
            message = {"target": target, "request": request, "work_dir": str(work_dir), "limits": asdict(limits)}
            also = places.beside(self._keep_out)
            with self._busy():
                return self._run({**message, "reads": also.reads, "writes": also.writes}, limits, hooks or Hooks())
        finally:
            self._room.release()

    def _run(self, message: dict[str, Any], limits: Limits, hooks: Hooks) -> Finished:
        ours, theirs = socket.socketpair()
        log_read, log_write = os.pipe()
        report_read, report_write = os.pipe()
        try:
            self._order(json.dumps(message).encode(), [theirs.fileno(), log_write, report_write])
        finally:
            theirs.close()
            os.close(log_write)
            os.close(report_write)
        run = _Run(ours, log_read, report_read, limits, hooks)
        try:
            _follow(run)
        except BaseException:
            _end(run)
            raise
        finally:
            ours.close()
            os.close(log_read)
            os.close(report_read)
        return _judge(run)

    def _order(self, message: bytes, descriptors: list[int]) -> None:
        for attempt in range(START_TRIES):
            with self._lock:
                control = self._ensure_server()
                try:
                    socket.send_fds(control, [message], descriptors)
                    return
                except OSError:
                    self._forget_server()
                    if attempt + 1 == START_TRIES:
                        raise StageCrashed("the sandbox process could not be started") from None

    def _ensure_server(self) -> socket.socket:
        if self._server is not None and self._control is not None and self._server.poll() is None:
            return self._control
        self._forget_server()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [
            sys.executable,
            "-P",
            "-m",
            "app.kit.sandbox.fork_server",
            str(theirs.fileno()),
            os.pathsep.join(self._keep_out),
            *self._libraries,
        ]
        env = child_environment(os.environ)
        self._server = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True, env=env)
        theirs.close()
        self._control = ours
        return ours

    def _forget_server(self) -> None:
        if self._control is not None:
            self._control.close()
        self._server = self._control = None


def _follow(run: _Run) -> None:
    """Read log, reports and outcome until the supervisor has said its last word and the pipes are empty."""
    with selectors.DefaultSelector() as selector:
        selector.register(run.job, selectors.EVENT_READ, _read_outcome)
        selector.register(run.log, selectors.EVENT_READ, _read_log)
        selector.register(run.report, selectors.EVENT_READ, _read_report)
        while selector.get_map():
            for key, _ in selector.select(POLL_S):
                if not key.data(run):
                    selector.unregister(key.fileobj)
            if not run.stopping and not run.outcome and run.hooks.should_stop():
                run.stopping = True
                with contextlib.suppress(OSError):
                    run.job.sendall(b"stop")


def _end(run: _Run) -> None:
    """Stop the run and wait until it is over: nothing of it may still write into a folder that its owner removes."""
    run.job.settimeout(END_S)
    with contextlib.suppress(OSError):
        run.job.sendall(b"stop")
        while run.job.recv(READ_BYTES):
            pass


def _read_outcome(run: _Run) -> bool:
    try:
        data = run.job.recv(READ_BYTES)
    except ConnectionResetError:
        data = b""
    run.outcome += data
    return bool(data)


def _read_log(run: _Run) -> bool:
    data = os.read(run.log, READ_BYTES)
    if data:
        run.hooks.on_log(data)
    return bool(data)


def _read_report(run: _Run) -> bool:
    data = os.read(run.report, READ_BYTES)
    run.messages += data
    while (end := run.messages.find(b"\n")) >= 0:
        message = json.loads(run.messages[:end])
        del run.messages[: end + 1]
        if "progress" in message:
            run.hooks.on_progress(message["progress"], message["message"])
        else:
            run.last = message
    return bool(data)


def _judge(run: _Run) -> Finished:
    if not run.outcome:
        raise StageCrashed("the sandbox process was killed", hint="Submit the job again.")
    outcome = json.loads(run.outcome)
    if run.stopping or outcome["why"] == "cancelled":
        raise StageCancelled("cancelled")
    if outcome["why"] == "timeout":
        raise StageTimedOut(
            f"timed out after {run.limits.time_s:g} s",
            hint="Look for a loop without an end in the model; use fewer or smaller reference images, or ask the "
            "operator for a longer limit.",
        )
    if outcome["why"] == "memory" or "out_of_memory" in run.last:
        raise _out_of_memory(run, outcome)
    if "result" in run.last:
        return Finished(run.last["result"], outcome["cpu_s"], outcome["wall_s"], outcome["peak_bytes"])
    raise _failure(run.last, outcome["status"])


def _out_of_memory(run: _Run, outcome: dict[str, Any]) -> StageOutOfMemory:
    return StageOutOfMemory(
        f"out of memory: it needs more than the {run.limits.memory_bytes / 2**30:.1f} GiB a stage may use",
        hint=LESS_MEMORY,
        detail={"peak_bytes": outcome["peak_bytes"], "said": run.last.get("out_of_memory", "")},
    )


def _failure(last: dict[str, Any], status: int) -> ModelmillError:
    if "error" in last:
        return ModelmillError.from_dict(last["error"])
    if "unexpected" in last:
        return StageFailed(last["unexpected"], hint="The traceback is in the log of this stage.")
    if status < 0:
        name = signal.Signals(-status).name
        if name == "SIGKILL":
            return StageOutOfMemory("killed (SIGKILL), most likely by the kernel for lack of memory", hint=LESS_MEMORY)
        return StageCrashed(f"crashed: {name}", hint="The last lines of the log may tell where.")
    return StageCrashed(
        f"ended with exit code {status} and without a result", hint="The last lines of the log may tell why."
    )
