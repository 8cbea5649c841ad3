"""Starts the process of one transfer, reads its messages, and ends it when its time is over."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

from app.exchange.errors import TransferFailed
from app.kit.errors import ModelmillError
from app.kit.process.spawn import python_module, spawn
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_object

COMMAND = python_module("app.exchange.transfer")
SECRETS = "MODELMILL_"
"""Prefix of our environment variables, which are not passed on: the request has everything that a transfer may know."""
OnProgress = Callable[[JsonObject], None]


def run_transfer(request: JsonObject, on_progress: OnProgress, *, time_s: float) -> JsonObject:
    """Returns the result of a transfer.

    Args:
        request: see `app.exchange.transfer`.
        on_progress: called with {message, done_bytes, total_bytes}, at most a few times a second.
        time_s: seconds after which it is ended.

    Raises:
        TransferFailed: It ended without a result, or not in time.
        ModelmillError: The error that it reported.
    """
    env = {name: value for name, value in os.environ.items() if not name.startswith(SECRETS)}
    pipe = subprocess.PIPE
    with spawn(COMMAND, env=env, stdin=pipe, stdout=pipe, stderr=pipe, has_session=False) as process:
        assert process.stdin and process.stdout and process.stderr
        errors = _Tail(process.stderr)
        timer = threading.Timer(time_s, process.kill)
        timer.start()
        try:
            with contextlib.suppress(BrokenPipeError), process.stdin as stdin:
                stdin.write(json.dumps(request).encode())
            last = _await_last(_iterate_messages(process.stdout), on_progress)
        finally:
            process.kill()
            timer.cancel()
        is_late = timer.finished.is_set() and not last and process.wait() < 0 and not errors.text
    if "result" in last:
        result: JsonObject = last["result"]
        return result
    if "error" in last:
        raise ModelmillError.from_dict(last["error"])
    raise TransferFailed(f"it did not end within {time_s:g} s" if is_late else errors.text or "its process was killed")


def _await_last(lines: Iterator[JsonObject], on_progress: OnProgress) -> JsonObject:
    last: JsonObject = {}
    for line in lines:
        if "progress" in line:
            on_progress(line["progress"])
        else:
            last = line
    return last


def _iterate_messages(output: Any) -> Iterator[JsonObject]:
    """Yields our messages; other lines were printed by libraries."""
    for line in output:
        with contextlib.suppress(UnreadableJson):
            yield read_object(line)


class _Tail:
    """The last line of its errors; they are read all the time, so that it never waits for us."""

    def __init__(self, stream: Any) -> None:
        self.text = ""
        self._stream = stream
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(ValueError, OSError):
            for line in self._stream:
                self.text = line.decode(errors="replace").strip()[:300] or self.text
