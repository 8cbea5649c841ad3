"""One sandbox run as its starter sees it: its log, its progress, its result, and the meaning of its end."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, field

from app.kit.errors import ModelmillError
from app.kit.sandbox.errors import (
    StageCancelled,
    StageCrashed,
    StageFailed,
    StageOutOfDisk,
    StageOutOfMemory,
    StageTimedOut,
)
from app.kit.sandbox.messages import RunOutcome
from app.kit.text.json_form import FormError, JsonForm
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_object

POLL_S = 0.25
READ_BYTES = 1 << 16
END_S = 10.0
MAX_REPORT_BYTES = 64 << 20
"""Of one line that a child reports. What it reads may have taken it over: nothing that it says is relied on."""
MAX_MESSAGE = 500
"""Characters of a progress message."""
LESS_MEMORY = "Use fewer or smaller reference pictures or fewer threads, or ask the operator for a higher limit."

LESS_DISK = "Use fewer or smaller reference pictures, or ask the operator for a larger work disk or a higher limit."


@dataclass(frozen=True)
class Limits:
    """Of one run."""

    memory_bytes: int
    """Private memory of the child and its descendants."""
    time_s: float
    """Wall clock, seconds."""
    threads: int
    """CPU threads it may use."""
    disk_bytes: int = 0
    """Added to the work folder. 0: by the size of what is in it before the run, and by the free space."""
    used_s: float = 0.0
    """How much of `time_s` is gone: an earlier run did the first part of the work."""


@dataclass
class Hooks:
    """Callbacks while the child runs. should_stop is called every POLL_S seconds."""

    on_log: Callable[[bytes], None] = lambda _: None
    on_progress: Callable[[float, str], None] = lambda *_: None
    should_stop: Callable[[], bool] = lambda: False


@dataclass(frozen=True)
class Finished:
    """The outcome of a run."""

    result: JsonObject
    """What the function returned."""
    cpu_s: float
    """Seconds, of the child and its descendants."""
    wall_s: float
    """Seconds."""
    peak_bytes: int
    """Of the child and its descendants."""


@dataclass(frozen=True)
class ReportedError:
    """A ModelmillError, as it crosses the boundary of the process."""

    code: str
    message: str
    hint: str = ""
    detail: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class ChildReport:
    """One line of a child: its progress, or how its function has ended."""

    progress: float | None = None
    """0 to 1."""
    message: str = ""
    result: JsonObject | None = None
    error: ReportedError | None = None
    out_of_memory: str | None = None
    out_of_disk: str | None = None
    """A file would have become larger than the limit."""
    unexpected: str | None = None
    """Another exception."""


CHILD_REPORT = JsonForm(ChildReport)


@dataclass
class Run:
    job: socket.socket
    log: int
    report: int
    limits: Limits
    hooks: Hooks
    messages: bytearray = field(default_factory=bytearray)
    last: ChildReport = field(default_factory=ChildReport)
    outcome: bytes = b""
    stopping: bool = False


def follow(run: Run) -> None:
    """Reads log, reports and outcome until the supervisor has sent its last message and the pipes are empty."""
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


def end(run: Run) -> None:
    """Stops the run and waits until it is over, so that nothing writes into a folder that its owner removes."""
    run.job.settimeout(END_S)
    with contextlib.suppress(OSError):
        run.job.sendall(b"stop")
        while run.job.recv(READ_BYTES):
            pass


def _read_outcome(run: Run) -> bool:
    try:
        data = run.job.recv(READ_BYTES)
    except ConnectionResetError:
        data = b""
    run.outcome += data
    return bool(data)


def _read_log(run: Run) -> bool:
    data = os.read(run.log, READ_BYTES)
    if data:
        run.hooks.on_log(data)
    return bool(data)


def _read_report(run: Run) -> bool:
    data = os.read(run.report, READ_BYTES)
    run.messages += data
    if b"\n" in data:
        *lines, run.messages = run.messages.split(b"\n")
        for line in lines:
            _take_report(run, line)
    if len(run.messages) > MAX_REPORT_BYTES:
        raise _make_unreadable(f"it is longer than {MAX_REPORT_BYTES >> 20} MiB")
    return bool(data)


def _take_report(run: Run, line: bytearray) -> None:
    try:
        report = CHILD_REPORT.read(read_object(line, is_strict=True))
    except (UnreadableJson, FormError) as error:
        raise _make_unreadable(str(error)) from None
    if report.progress is None:
        run.last = report
    else:
        run.hooks.on_progress(max(0.0, min(1.0, report.progress)), report.message[:MAX_MESSAGE])


def _make_unreadable(reason: str) -> StageCrashed:
    return StageCrashed(f"its report cannot be read: {reason}", hint="The last lines of the log may tell why.")


def judge(run: Run) -> Finished:
    if not run.outcome:
        raise StageCrashed(
            "the sandbox process was killed",
            hint="Submit the job again. If that does not help, the log of the worker has the reason.",
        )
    outcome: RunOutcome = json.loads(run.outcome)
    if outcome["why"] == "unprepared":
        raise StageCrashed(
            f"the sandbox could not load its libraries: {outcome['reason']}",
            hint="Tell the operator: the installation lacks something, and the log of the worker has the details.",
        )
    if run.stopping or outcome["why"] == "cancelled":
        raise StageCancelled("cancelled")
    if outcome["why"] == "timeout":
        raise StageTimedOut(
            f"timed out after {run.limits.time_s:g} s",
            hint="Look for a loop without an end in the model; use fewer or smaller reference pictures, or ask the "
            "operator for a longer limit.",
        )
    if outcome["why"] == "memory" or run.last.out_of_memory is not None:
        raise _out_of_memory(run, outcome)
    if outcome["why"] == "disk" or run.last.out_of_disk is not None or outcome["status"] == -signal.SIGXFSZ:
        raise _out_of_disk(run)
    if run.last.result is not None:
        return Finished(run.last.result, outcome["cpu_s"], outcome["wall_s"], outcome["peak_bytes"])
    raise _make_failure(run.last, outcome["status"])


def _out_of_memory(run: Run, outcome: RunOutcome) -> StageOutOfMemory:
    return StageOutOfMemory(
        f"out of memory: it needs more than the {run.limits.memory_bytes / 2**30:.1f} GiB a stage may use",
        hint=LESS_MEMORY,
        detail={"peak_bytes": outcome["peak_bytes"], "said": run.last.out_of_memory or ""},
    )


def _out_of_disk(run: Run) -> StageOutOfDisk:
    return StageOutOfDisk(
        f"out of disk space: it stored more than the {run.limits.disk_bytes / 2**30:.1f} GiB a stage may store",
        hint=LESS_DISK,
        detail={"said": run.last.out_of_disk or ""},
    )


def _make_failure(last: ChildReport, status: int) -> ModelmillError:
    if last.error is not None:
        return ModelmillError.from_dict(asdict(last.error))
    if last.unexpected is not None:
        return StageFailed(last.unexpected, hint="The traceback is in the log of this stage.")
    if status < 0:
        name = signal.Signals(-status).name
        if name == "SIGKILL":
            return StageOutOfMemory("killed (SIGKILL), most likely by the kernel for lack of memory", hint=LESS_MEMORY)
        return StageCrashed(f"crashed: {name}", hint="The last lines of the log may tell where.")
    return StageCrashed(
        f"ended with exit code {status} and without a result", hint="The last lines of the log may tell why."
    )
