"""The other end of app.video.scheduling.policy_process: starts it, calls it with a time limit, ends it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import Any

from app.kit.process.spawn import python_module, signal_group, spawn
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_json

START_LIMIT_S = 30.0
LOAD_LIMIT_S = 15.0
"""For importing a policy's module, once per process; it does not count toward the policy's own limit."""
MAX_ANSWER_BYTES = 1 << 20
OUTCOMES = ("raised", "invalid", "unknown")
PASSED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "VIRTUAL_ENV")
"""The environment variables that it gets: others may be secrets, and policies are third-party code."""


class ProcessEnded(Exception):
    """The process has ended; the argument gives the way."""


class ProcessLate(Exception):
    """The process did not answer in time; the argument gives the time."""


class InvalidAnswer(Exception):
    """The process gave an invalid answer; the argument describes it."""


class StartFailed(Exception):
    """The process could not be started; the argument gives the reason."""


class PolicyProcess:
    """The process that runs policies. It starts with this object, or StartFailed is raised."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._channel, self._received = ours, b""
        try:
            with theirs:
                self._process = _spawn(theirs.fileno())
        except OSError as error:
            ours.close()
            raise StartFailed(error.strerror or str(error)) from error
        try:
            self.read(START_LIMIT_S)
        except (ProcessEnded, ProcessLate, InvalidAnswer) as error:
            self.end()
            raise StartFailed(str(error)) from error

    def ask(self, question: Mapping[str, Any], limit_s: float) -> JsonObject:
        """Makes it call a policy. After an error the process must be ended.

        Args:
            question: {policy, call}, see policy_process.
            limit_s: Seconds that the policy may take.

        Raises:
            ProcessEnded: It ended.
            ProcessLate: It did not answer in time.
            InvalidAnswer: Its answer is invalid.
        """
        try:
            self._channel.settimeout(LOAD_LIMIT_S)
            self._channel.sendall(json.dumps(question).encode() + b"\n")
        except OSError as error:
            raise ProcessEnded(self._describe_exit()) from error
        reply = self.read(LOAD_LIMIT_S)
        answer = reply if "error" in reply else self.read(limit_s)
        if not _is_answer(answer):
            raise InvalidAnswer("an answer of no known form")
        return answer

    def read(self, limit_s: float) -> JsonObject:
        until = time.monotonic() + limit_s
        while b"\n" not in self._received:
            if len(self._received) > MAX_ANSWER_BYTES:
                raise InvalidAnswer("an answer without end")
            try:
                self._received += self._receive(until - time.monotonic())
            except TimeoutError:
                raise ProcessLate(f"more than {limit_s:g} s") from None
        line, _, self._received = self._received.partition(b"\n")
        try:
            message = read_json(line)
        except UnreadableJson as error:
            raise InvalidAnswer("an answer that is no JSON") from error
        if not isinstance(message, dict):
            raise InvalidAnswer("an answer that is no object")
        return message

    def _receive(self, left_s: float) -> bytes:
        if left_s <= 0:
            raise TimeoutError
        self._channel.settimeout(left_s)
        try:
            data = self._channel.recv(1 << 16)
        except TimeoutError:
            raise
        except OSError as error:
            raise ProcessEnded(self._describe_exit()) from error
        if not data:
            raise ProcessEnded(self._describe_exit())
        return data

    def _describe_exit(self) -> str:
        """How it ended. Waits a moment for that, because its end of the channel closes first."""
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return "it closed its channel"
        return f"signal {-code}" if code < 0 else f"status {code}"

    @property
    def is_idle(self) -> bool:
        """Whether it runs, and has sent nothing unrequested."""
        return self._process.poll() is None and not self._received and not self._has_receive()

    def _has_receive(self) -> bool:
        self._channel.setblocking(False)
        try:
            self._channel.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def end(self) -> None:
        signal_group(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._channel.close()


def _spawn(descriptor: int) -> subprocess.Popen[bytes]:
    """Its stderr is ours, so that tracebacks of policies are in our log."""
    command = python_module("app.video.scheduling.policy_process", str(descriptor))
    return spawn(command, env=_build_environment(), stdout=subprocess.DEVNULL, pass_fds=[descriptor])


def _is_answer(message: Mapping[str, Any]) -> bool:
    if not isinstance(message.get("took_ms"), int | float):
        return False
    if "error" in message:
        return message["error"] in OUTCOMES and isinstance(message.get("reason"), str)
    answer = message.get("answer")
    is_kept = isinstance(message.get("state"), dict) or isinstance(message.get("state_problem"), str)
    return is_kept and isinstance(message.get("said"), str) and isinstance(answer, list) and len(answer) == 2


def _build_environment() -> dict[str, str]:
    passed = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    paths = [path or str(os.getcwd()) for path in sys.path]  # noqa: PTH109  # the import path is made of texts
    return {**passed, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
