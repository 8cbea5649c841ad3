"""Follows a task on the command line: its states and why it waits, its growing log, its conversion."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import typer

from app.kit.cli.api_client import ApiError, WaitedEnough
from app.kit.cli.command import CommandFailed, Exit, Unreachable
from app.kit.cli.terminal_text import print_log
from app.kit.errors import BadInput, ModelmillError
from app.kit.text.json_values import JsonObject
from app.training.client import MOST_LINES, TrainingClient
from app.training.errors import LogMissing

ENDED = ("SUCCEEDED", "FAILED", "CANCELED")
POLL_S = 1.0
PATIENCE_S = 60.0
"""How long the service may be away while somebody waits."""
BEGINS_WITHIN_S = 180.0
"""After its task has succeeded a conversion starts at once, or with a pulse of the scheduler."""
RESULT = "out.nef"
GAP = b"[some lines went by faster than they could be followed; the whole log is in the task's folder]\n"


class ConversionMissing(ModelmillError, code="CONVERSION_MISSING"):
    """The task has succeeded, and what it asked for was not made of its result."""


class TaskFollower:
    """Tells of a task until its end.

    Args:
        timeout_s: how long to follow, in seconds; None: to the end.
        is_quiet: what is told goes to stderr, for stdout is to be JSON; and the log goes nowhere.
        is_only_log: states are not told.
        tail: with how many lines of the log to start.
    """

    def __init__(
        self,
        client: TrainingClient,
        task_id: str,
        *,
        timeout_s: float | None = None,
        is_quiet: bool,
        is_only_log: bool = False,
        tail: int = MOST_LINES,
    ) -> None:
        self._client = client
        self._task_id = task_id
        self._deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._is_quiet = is_quiet
        self._is_only_log = is_only_log
        self._tail = tail
        self._last_line = ""
        self._attempt_no = 0
        self._log = b""

    def to_the_end(self) -> JsonObject:
        """Tell what happens until the task has ended, and return its last record.

        Raises:
            CommandFailed: Ctrl-C was pressed; the task goes on.
        """
        self._say(f"task {self._task_id}")
        try:
            return self._watch()
        except KeyboardInterrupt:
            typer.echo(
                f"The task goes on. See it with `modelmill train show {self._task_id}`, follow it again with "
                f"`modelmill train logs -f {self._task_id}`, end it with `modelmill train cancel {self._task_id}`.",
                err=True,
            )
            raise CommandFailed(Exit.CANCELLED) from None

    def conversion(self, folder: Path | None) -> JsonObject | None:
        """Follow what the task asks to be made of its result, and download it. None: it asks for nothing.

        Raises:
            ConversionMissing: No conversion was made of the result.
            CommandFailed: Ctrl-C was pressed; the conversion goes on.
        """
        try:
            record = self._ask(lambda: self._client.task(self._task_id))
            job = self._await_conversion(self._job_of(record)) if asks_for_conversion(record) else None
        except KeyboardInterrupt:
            typer.echo(f"The conversion goes on. See it with `modelmill train show {self._task_id}`.", err=True)
            raise CommandFailed(Exit.CANCELLED) from None
        if job is not None and job["status"] == "COMPLETED":
            self._fetch(job["job_id"], folder)
        return job

    def _watch(self) -> JsonObject:
        while True:
            record: JsonObject = self._ask(lambda: self._client.task(self._task_id))
            has_ended = record["state"] in ENDED
            if not has_ended:
                self._tell(record)
            if record["latest_attempt"] and not self._is_quiet:
                self._show_log(record["latest_attempt"]["attempt_no"])
            if has_ended:
                self._tell(record)
                return record
            self._rest()

    def _tell(self, record: JsonObject) -> None:
        why = record["waiting_reason"] or record["error_summary"]
        place = f" (position {record['position']})" if record["position"] is not None else ""
        self._say(f"{record['state']}{place}" + (f"  {why}" if why else ""))

    def _show_log(self, attempt_no: int) -> None:
        """What is new of it."""
        try:
            data: bytes = self._ask(lambda: self._client.log(self._task_id, attempt_no=attempt_no))
        except ApiError as error:
            if error.code != LogMissing.code:
                raise
            return
        if attempt_no != self._attempt_no:
            self._attempt_no, self._log = attempt_no, b""
            self._print(f"attempt {attempt_no}")
        new = new_of(self._log, data)
        if not self._log:
            new = last_of(new, self._tail)
        self._log = data or self._log
        print_log(new)

    def _job_of(self, record: JsonObject) -> str:
        """The id of the conversion job, once it is made; what is tried again is waited for."""
        begun_at = time.monotonic()
        while True:
            conversion = record["conversions"][-1] if record["conversions"] else None
            if conversion is None and time.monotonic() - begun_at > BEGINS_WITHIN_S:
                raise self._make_missing("nothing has begun it yet")
            if conversion is not None and conversion["job_id"]:
                return str(conversion["job_id"])
            if conversion is not None and conversion["problem"]:
                if conversion["next_try_at"] is None:
                    raise self._make_missing(conversion["problem"])
                self._say(
                    f"no conversion yet: {conversion['problem']} It is tried again at {conversion['next_try_at']}."
                )
            self._rest()
            record = self._ask(lambda: self._client.task(self._task_id))

    def _make_missing(self, why: str) -> ConversionMissing:
        return ConversionMissing(
            f"no conversion was made of the result: {why}", hint=f"See `modelmill train show {self._task_id}`."
        )

    def _await_conversion(self, job_id: str) -> JsonObject:
        self._say(f"conversion {job_id}")
        while True:
            job: JsonObject = self._ask(lambda: self._client.conversion(job_id))
            error = job["error"]
            self._say(f"{job['status']}" + (f"  {error['step']}: {error['reason']} {error['hint']}" if error else ""))
            if job["status"] in ("COMPLETED", "FAILED"):
                return job
            self._rest()

    def _fetch(self, job_id: str, folder: Path | None) -> None:
        if folder is None:
            self._say(f"{RESULT} is ready: fetch it with `modelmill jobs download {job_id}`")
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._client.download(job_id, folder)
        except OSError as error:
            reason = error.strerror or error
            raise BadInput(f"cannot write to {folder}: {reason}", hint="Choose another folder.") from error
        self._say(f"{RESULT} lies in {folder / RESULT}")

    def _say(self, text: str) -> None:
        """Once, not at every look."""
        if text != self._last_line:
            self._last_line = text
            self._print(text)

    def _print(self, text: str) -> None:
        if not self._is_only_log:
            typer.echo(text, err=self._is_quiet)

    def _ask(self, look: Any) -> Any:
        """The service may be away for a moment."""
        heard_at = time.monotonic()
        while True:
            try:
                return look()
            except Unreachable:
                if time.monotonic() - heard_at > PATIENCE_S:
                    raise
            self._rest()

    def _rest(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise WaitedEnough(
                "the task has not ended within the given time",
                hint=f"It goes on; see `modelmill train show {self._task_id}`.",
            )
        time.sleep(POLL_S)


def new_of(printed: bytes, tail: bytes) -> bytes:
    """What of the last lines of a log comes after those that were seen. All of it, after a gap, where none were."""
    if tail.startswith(printed):
        return tail[len(printed) :]
    last = printed[printed.rfind(b"\n", 0, -1) + 1 :]
    at = tail.rfind(last)
    while at >= 0:
        head = tail[: at + len(last)]
        if printed.endswith(head) or head.endswith(printed):
            return tail[len(head) :]
        at = tail.rfind(last, 0, at)
    return GAP + tail if tail else b""


def last_of(log: bytes, count: int) -> bytes:
    """Its last lines."""
    lines = log.split(b"\n")
    return b"\n".join(lines[-count - (lines[-1] == b"") :])


def asks_for_conversion(record: JsonObject) -> bool:
    from app.training.spec import read_spec

    return read_spec(record["jobspec"].encode())[0].convert is not None
