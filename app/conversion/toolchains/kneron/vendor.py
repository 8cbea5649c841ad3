"""Starts the vendor's interpreter on runner.py and listens to it. Same process group, no shell, its own log file.

The limits on memory and time are those of the sandbox this runs in; the group is ended by it.
"""

from __future__ import annotations

import fcntl
import json
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
from app.conversion.toolchains.kneron.installation import DEFAULT_PYTHON, DEFAULT_SEARCH, LOCK, PYTHONPATH, VERSION_FILE
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
