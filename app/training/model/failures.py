"""Why an attempt ended without success, from what Ray says of it and what its program wrote. Pure; any text will do.

The order decides, first match first:
1. it was to be stopped, or was stopped → CANCELED; Ray does not know it any more → LOST
2. verl found too few GPUs (the words of its versions 0.3 to 0.10) and ended with that, or Ray could not place the
   driver in time → INSUFFICIENT_RESOURCES
3. Ray's own process for the job, its node or a node of its actors died → INFRA_ERROR
4. its environment or command could not be set up; the exception it ended with is one of paths, modules or Hydra's
   configuration → USER_ERROR
5. a GPU's or the machine's memory ran out, or the kernel killed it → OUT_OF_MEMORY
6. any other exception or exit code → RUNTIME_ERROR; else UNKNOWN

Ray's message holds the last ten lines of the log only, in colors, and what was written last is often noise of other
processes: so the tail of the log is read too. Sentences are matched with their numbers in them, because a traceback
quotes the source line that has the same words. Every pattern is anchored or bounded: time is linear in the text.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain

from app.training.model.log_excerpt import LogExcerpt, read
from app.training.model.state import FailureKind

SUMMARY_CHARS = 300
RAYS_LINE = "Running entrypoint for job "
QUICK_FAILURES = 5
"""How often in a row a program may find too few GPUs although there was room for it. Another process may be faster once
or twice; after that the cluster is not the cause, and the rest of the queue should not wait for it."""
NUMBER = r"\d{1,9}(?:\.\d{1,9})?"

TOO_FEW = re.compile(
    rf"Total available GPUs\s{{1,9}}{NUMBER}\s{{1,9}}is less than total desired GPUs\s{{1,9}}{NUMBER}"
    rf"|Resource pool [^\s:]{{1,99}}: {NUMBER}\*{NUMBER} ?cannot be satisfied in this ray cluster"
    rf"|Cannot satisfy placement group requirement for pool '[^'\n]{{1,99}}' requiring {NUMBER} GPUs"
)
NODE_DIED = re.compile(
    r"The actor (?:died|is dead) because its node has died"
    r"|Task failed (?:because the node it was running on is dead|due to the node .{0,60}dead or unavailable)"
    r"|Owner's node has crashed"
    r"|^ray\.exceptions\.(?:LocalRaylet|Node)DiedError\b"
)
MISUSE = re.compile(
    r"^(?:Could not (?:override|append|find) |Cannot find primary config |Error parsing override |Error merging "
    r"|Override \S{1,300} looks like |no viable alternative at input |mismatched input |extraneous input "
    r"|token recognition error |In '[^'\n]{1,300}': )"
    r"|^\S{1,300}: (?:error: (?:unrecognized arguments|the following arguments are required|argument )"
    r"|No module named |can't open file '|Error while finding module specification for )"
    r"|^ImportError: cannot import name "
)
"""Errors of Hydra, of argparse, of the interpreter, which end without a traceback."""
OUT_OF_MEMORY = re.compile(
    r"(?:CUDA|HIP|NPU|XPU) out of memory"
    r"|CUDA error: out of memory"
    r"|^(?:\w{1,99}\.){0,9}(?:RayTaskError\()?OutOfMemoryError\)?: "
    r"|DefaultCPUAllocator: can't allocate memory"
    r"|killed due to the node running low on memory"
    r"|[1-9]\d{0,5} Workers \(tasks / actors\) killed due to memory pressure"
    r"|^MemoryError(?::|$)"
)
USER_EXCEPTIONS = frozenset(
    {
        "FileNotFoundError",
        "IsADirectoryError",
        "NotADirectoryError",
        "PermissionError",
        "ModuleNotFoundError",
        "HFValidationError",
        "RepositoryNotFoundError",
        "RuntimeEnvSetupError",
        "ConfigAttributeError",
        "ConfigKeyError",
        "ConfigCompositionException",
        "MissingConfigException",
        "MissingMandatoryValue",
    }
)
USER_MODULES = ("omegaconf.errors.", "hydra.errors.")

NO_ROOM_TYPES = frozenset({"JOB_SUPERVISOR_ACTOR_START_TIMEOUT", "JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE"})
INFRA_TYPES = frozenset(
    {
        "JOB_SUPERVISOR_ACTOR_DIED",
        "JOB_SUPERVISOR_ACTOR_START_FAILURE",
        "JOB_SUPERVISOR_ACTOR_UNKNOWN_FAILURE",
    }
)
NOT_RUNNABLE = frozenset({126, 127})
"""Exit codes of the shell: found but not executable, not found."""
KILLED = frozenset({-9, 137})


@dataclass(frozen=True)
class Failure:
    """Why an attempt failed."""

    kind: FailureKind
    summary: str
    """One line for people, without colors."""


def classify(
    status: str,
    error_type: str,
    exit_code: int | None,
    message: str,
    log_tail: str,
    *,
    was_stopped: bool,
    counts_gpus: bool = True,
) -> Failure:
    """Determines why an attempt failed.

    Args:
        status: Ray's status; "" if Ray does not know the job.
        error_type: Ray's error type; "" if there is none.
        exit_code: Of the program, if it is known.
        message: Ray's, with the last lines of the log.
        log_tail: The end of the log.
        was_stopped: We stopped it.
        counts_gpus: The program checks by itself whether there are enough GPUs, as verl does; messages of other
            programs about that are ignored.
    """
    if was_stopped:
        return Failure(FailureKind.CANCELED, "Canceled")
    if status == "STOPPED":
        return Failure(FailureKind.CANCELED, "Stopped on Ray by somebody else")
    if not status:
        return Failure(FailureKind.LOST, "Ray does not know this job any more: its head was started anew")
    evidence = _Evidence(error_type, exit_code, read(message), read(log_tail), counts_gpus)
    for kind, find in _ORDER:
        summary = find(evidence)
        if summary is not None:
            return Failure(kind, _shorten(summary))
    return Failure(
        FailureKind.UNKNOWN, _shorten(evidence.first_line() or "It failed, and nothing is known of the cause")
    )


def is_retried(
    kind: FailureKind, *, infra_retries: int, tried_s: float, most_s: float, quick_failures: int = 0
) -> bool:
    """Whether a failed task is retried.

    Args:
        infra_retries: how many are left.
        tried_s: seconds for which it has lacked resources.
        most_s: the limit of that time.
        quick_failures: how often in a row it has failed for lack of resources soon after it was given them.
    """
    if kind is FailureKind.INSUFFICIENT_RESOURCES:
        return tried_s < most_s and quick_failures < QUICK_FAILURES
    if kind is FailureKind.PREEMPTED:
        return True
    return kind in (FailureKind.INFRA_ERROR, FailureKind.LOST) and infra_retries > 0


# --- each finder: the line with the evidence, or None ---
@dataclass(frozen=True)
class _Evidence:
    error_type: str
    exit_code: int | None
    message: LogExcerpt
    log: LogExcerpt
    counts_gpus: bool

    def search(self, pattern: re.Pattern[str]) -> str | None:
        """The last matching line: of the log, which is complete, otherwise of the message."""
        lines = chain(reversed(self.log.lines), reversed(self.message.lines))
        return next((line for line in lines if pattern.search(line)), None)

    def exception(self) -> str | None:
        return self.log.exception or self.message.exception

    def first_line(self) -> str | None:
        return next((line.strip() for line in self.message.lines if line.strip()), None)


def _detect_too_few(evidence: _Evidence) -> str | None:
    if evidence.error_type in NO_ROOM_TYPES:
        return evidence.first_line() or "Ray found no room for its driver"
    if not evidence.counts_gpus:
        return None
    exception = evidence.exception()
    if exception is None:
        return evidence.search(TOO_FEW)
    return exception if TOO_FEW.search(exception) else None


def _detect_infra(evidence: _Evidence) -> str | None:
    if evidence.error_type in INFRA_TYPES:
        return evidence.first_line() or "Ray's process for this job died"
    return evidence.search(NODE_DIED)


def _detect_user_error(evidence: _Evidence) -> str | None:
    if evidence.error_type == "RUNTIME_ENV_SETUP_FAILURE":
        return evidence.first_line() or "Its environment could not be set up"
    if evidence.exit_code in NOT_RUNNABLE:
        return _find_last_line(evidence) or "Its command was not found"
    exception = evidence.exception()
    if exception is None:
        return evidence.search(MISUSE)
    name = exception.partition(":")[0]
    cause = name.rstrip(")").rpartition("(")[2].rpartition(".")[2]  # of ray.exceptions.RayTaskError(KeyError)
    is_theirs = cause in USER_EXCEPTIONS or name.startswith(USER_MODULES) or MISUSE.search(exception)
    return exception if is_theirs else None


def _out_of_memory(evidence: _Evidence) -> str | None:
    line = evidence.search(OUT_OF_MEMORY)
    if line is None and evidence.exit_code in KILLED:
        return "Killed by the system (signal 9): most often its memory ran out"
    return line


def _detect_runtime_error(evidence: _Evidence) -> str | None:
    exception = evidence.exception()
    if exception is not None:
        return exception
    if not evidence.exit_code:
        return None
    last = _find_last_line(evidence)
    return f"{_describe_end(evidence.exit_code)}: {last}" if last else _describe_end(evidence.exit_code)


_ORDER: tuple[tuple[FailureKind, Callable[[_Evidence], str | None]], ...] = (
    (FailureKind.INSUFFICIENT_RESOURCES, _detect_too_few),
    (FailureKind.INFRA_ERROR, _detect_infra),
    (FailureKind.USER_ERROR, _detect_user_error),
    (FailureKind.OUT_OF_MEMORY, _out_of_memory),
    (FailureKind.RUNTIME_ERROR, _detect_runtime_error),
)


def _describe_end(exit_code: int) -> str:
    number = -exit_code if exit_code < 0 else exit_code - 128
    try:
        return f"Ended by signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"Ended with exit code {exit_code}"


def _find_last_line(evidence: _Evidence) -> str | None:
    """Its last output. Ray's message starts with a line of its own; that in the log is written when the program has
    started, so it may come after the output."""
    lines = chain(reversed(evidence.log.lines), reversed(evidence.message.lines[1:]))
    return next((line.strip() for line in lines if line.strip() and not line.startswith(RAYS_LINE)), None)


def _shorten(line: str) -> str:
    words = " ".join(line.split())
    return words if len(words) <= SUMMARY_CHARS else words[: SUMMARY_CHARS - 1] + "…"
