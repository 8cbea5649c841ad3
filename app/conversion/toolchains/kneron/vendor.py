"""Starts the vendor's interpreter on runner.py and listens to it. Same process group, no shell, its own log file.

The vendor has no callback, so progress is derived from phases, known log lines and time.

The limits on memory and time are those of the sandbox this runs in; the group is ended by it.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypedDict, cast

from app.conversion.errors import ToolchainMissing
from app.conversion.model import Stage
from app.conversion.toolchains.base import Progress
from app.conversion.toolchains.kneron.installation import (
    DEFAULT_PYTHON,
    DEFAULT_SEARCH,
    LOCK,
    PYTHONPATH,
    VERSION_FILE,
)
from app.kit.process.spawn import spawn
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_object

RUNNER = Path(__file__).with_name("runner.py")
LOG_LIMIT = 64 << 20
LINE_LIMIT = 64 << 10
TICK_S = 0.5
PRIVATE = re.compile(
    r"^(PYTHON|MODELMILL_|VIRTUAL_ENV|CONDA_PREFIX$|AWS_|MINIO_|S3_|REDIS)|SECRET|PASSWORD|PASSWD|TOKEN|CREDENTIAL"
)
"""Environment variables that are not passed on: those of our interpreter, and all that may contain a key."""

Watch = Callable[[str | None], None]
"""Called with every log line, and with None on every tick without one."""


class RunnerResult(TypedDict, total=False):
    """What runner.py writes; a run that fails leaves out what it did not come to."""

    ok: bool
    phase: str
    dropped: list[dict[str, str]]
    """Arguments that the installed toolchain does not know: {call, argument}."""
    warnings: list[str]
    versions: dict[str, str]
    files: dict[str, str]
    """Paths of the vendor's reports, by name."""
    vendor_name: str
    """The vendor's name for the output."""
    optimizer: str
    evaluation: str
    """Of the IP evaluator: "done", "failed" or "died"."""
    evaluate_text: str
    type: str
    """The class of the exception that ended the run, with its message and traceback."""
    message: str
    traceback: list[str]


@dataclass(frozen=True)
class VendorOutcome:
    returncode: int
    """Negative after a signal."""
    result: RunnerResult
    """Empty if the runner died before writing it."""
    log: Path

    def lines(self) -> Iterator[str]:
        with self.log.open(encoding="utf-8", errors="replace") as file:
            yield from file


@dataclass(frozen=True)
class Vendor:
    """The location of the vendor's installation, and how it is run."""

    python: Path = DEFAULT_PYTHON
    pythonpath: str = str(PYTHONPATH)
    version_file: Path = VERSION_FILE
    search: tuple[Path, ...] = DEFAULT_SEARCH
    """Folders to search for outputs that are not in the expected place."""
    lock: Path = LOCK

    def version(self) -> str:
        """Returns the image's own name of its version, such as kneron/toolchain:v0.33.1; empty if it cannot be read."""
        try:
            return self.version_file.read_text("utf-8", "replace").strip()[:200]
        except OSError:
            return ""

    def check(self) -> None:
        if not os.access(self.python, os.X_OK) or not self.python.is_file():
            raise ToolchainMissing(
                f"the Kneron toolchain's interpreter {self.python} is not here",
                hint="Run this worker inside the vendor's image (kneron/toolchain), or set the path of the interpreter "
                "of its onnx1.13 environment.",
            )

    def environment(self) -> dict[str, str]:
        public = {key: value for key, value in os.environ.items() if not PRIVATE.search(key)}
        public["PATH"] = f"{self.python.parent}{os.pathsep}{public.get('PATH', os.defpath)}"
        return {**public, "PYTHONPATH": self.pythonpath, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"}

    def run(self, request: JsonObject, scratch: Path, watch: Watch) -> VendorOutcome:
        """Runs a request to its end.

        Raises:
            ToolchainMissing: The interpreter cannot be started.
        """
        self.check()
        question, answer, log = scratch / "request.json", scratch / "result.json", scratch / "vendor.log"
        answer.unlink(missing_ok=True)
        question.write_text(json.dumps({**request, "result": str(answer)}), "utf-8")
        command = [str(self.python), str(RUNNER), str(question)]
        with self.turn(watch), log.open("wb") as record:
            returncode = self._listen(command, scratch, Tee(record, watch))
        return VendorOutcome(returncode, _read_result(answer), log)

    def _listen(self, command: list[str], scratch: Path, tee: Tee) -> int:
        try:
            process = spawn(
                command,
                env=self.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                folder=scratch,
                has_session=False,
            )
        except OSError as error:
            raise ToolchainMissing(f"the Kneron toolchain's interpreter cannot be started: {error.strerror}") from error
        assert process.stdout is not None
        try:
            with process.stdout as pipe:
                _drain(process, pipe.fileno(), tee)
            return process.wait()
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()

    @contextmanager
    def turn(self, watch: Watch) -> Iterator[None]:
        """Allows one conversion at a time per machine: they share a scratch folder (vendor manual v0.33.1)."""
        try:
            handle = os.open(self.lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            print(f"no lock file ({error.strerror}): make sure that one conversion runs at a time", flush=True)
            yield
            return
        try:
            while not _is_taken(handle):
                watch("waiting for another Kneron conversion on this machine")
                time.sleep(TICK_S)
            yield
        finally:
            os.close(handle)


def _is_taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _drain(process: subprocess.Popen[bytes], pipe: int, tee: Tee) -> None:
    """Reads until the end of the pipe or of the process: a stray helper may keep the pipe open forever."""
    while True:
        is_over = process.poll() is not None
        ready, _, _ = select.select([pipe], [], [], 0 if is_over else TICK_S)
        if ready:
            data = os.read(pipe, 1 << 16)
            if not data:
                break
            tee.feed(data)
        elif is_over:
            break
        else:
            tee.tick()
    tee.close()


class Tee:
    """Splits what the vendor prints into lines: to stdout (the stage log), to a file, and to a watcher."""

    def __init__(self, record: IO[bytes], watch: Watch) -> None:
        self._record, self._watch = record, watch
        self._rest, self._room = b"", LOG_LIMIT

    def feed(self, data: bytes) -> None:
        lines = (self._rest + data.replace(b"\r", b"\n")).split(b"\n")
        self._rest = lines.pop()
        for line in lines:
            self._emit(line)
        if len(self._rest) > LINE_LIMIT:
            self._emit(self._rest)
            self._rest = b""

    def tick(self) -> None:
        self._watch(None)

    def close(self) -> None:
        if self._rest:
            self._emit(self._rest)

    def _emit(self, line: bytes) -> None:
        if not line.strip():
            return
        text = line.decode("utf-8", "replace")
        print(text, file=sys.stdout, flush=True)
        self._room -= len(line)
        if self._room > 0:
            self._record.write(line + b"\n")
        self._watch(text)


def _read_result(path: Path) -> RunnerResult:
    try:
        return cast(RunnerResult, read_object(path.read_bytes()))
    except (OSError, UnreadableJson):
        return {}


Phase = tuple[re.Pattern[str], float, str]
MARK = r"^\[modelmill\] phase "
REPORT_EVERY_S = 2.0
CREEP_S = {Stage.ONNX: 60.0, Stage.BIE: 900.0, Stage.NEF: 180.0}
"""Seconds after which a phase shows 63 % of the way to the next one; stage times are not documented."""


def _make_phase(pattern: str, fraction: float, message: str) -> Phase:
    return re.compile(pattern, re.IGNORECASE), fraction, message


WAITING = _make_phase(r"^waiting for another Kneron conversion", 0.0, "waiting for another conversion on this machine")
START = _make_phase(MARK + "import", 0.10, "starting the toolchain")
PHASES: dict[Stage, tuple[Phase, ...]] = {
    Stage.ONNX: (
        WAITING,
        START,
        _make_phase(MARK + "optimize", 0.2, "optimizing the graph"),
        _make_phase(MARK + "evaluate", 0.6, "estimating the speed on the chip"),
    ),
    Stage.BIE: (
        WAITING,
        START,
        _make_phase(MARK + "analysis", 0.2, "quantizing"),
        _make_phase(r"\bknerex\b", 0.35, "quantizing: value ranges"),
        _make_phase(r"\bdynasty\b", 0.6, "quantizing: fixed-point check"),
        _make_phase(r"\bcompiler frontend\b", 0.8, "quantizing: compiling for the report"),
        _make_phase(r"general/Success", 0.9, "quantizing: done"),
    ),
    Stage.NEF: (
        WAITING,
        START,
        _make_phase(MARK + "compile", 0.2, "compiling"),
        _make_phase(r"\bcompiler frontend\b", 0.5, "compiling: scheduling"),
        _make_phase(r"\bgen_nef\b", 0.8, "compiling: writing the NEF"),
    ),
}


class PhaseClock:
    """Turns log lines and ticks into progress that never goes back.

    Args:
        clock: Seconds, for tests.
    """

    def __init__(self, stage: Stage, progress: Progress, clock: Callable[[], float] = time.monotonic) -> None:
        self._phases, self._creep_s = PHASES[stage], CREEP_S[stage]
        self._progress, self._clock = progress, clock
        self._index = -1
        self._began = self._reported_at = clock()

    def watch(self, line: str | None) -> None:
        now = self._clock()
        if line is not None:
            for index in range(self._index + 1, len(self._phases)):
                if self._phases[index][0].search(line):
                    self._index, self._began, self._reported_at = index, now, now
                    self._progress(self._phases[index][1], self._phases[index][2])
                    return
        if self._index >= 0 and now - self._reported_at >= REPORT_EVERY_S:
            self._reported_at = now
            self._progress(self._estimate_fraction(now), self._phases[self._index][2])

    def _estimate_fraction(self, now: float) -> float:
        low = self._phases[self._index][1]
        following = self._index + 1
        high = self._phases[following][1] if following < len(self._phases) else 0.98
        return low + (high - low) * (1 - math.exp(-(now - self._began) / self._creep_s)) * 0.98
