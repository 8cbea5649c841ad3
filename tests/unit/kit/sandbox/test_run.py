"""What a child reports is not relied on: it may be in the hands of the file that it reads."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable

import pytest

from app.kit.sandbox import run as module
from app.kit.sandbox.errors import StageCrashed, StageFailed
from app.kit.sandbox.run import Finished, Hooks, Limits, Run, follow, judge

OUTCOME = {"why": "exited", "status": 0, "cpu_s": 0.1, "wall_s": 0.1, "peak_bytes": 1}
Followed = Callable[..., Finished]


@pytest.fixture
def followed() -> Followed:
    """Follows a run whose child reports these bytes."""

    def call(report: bytes, hooks: Hooks | None = None) -> Finished:
        ours, theirs = socket.socketpair()
        log, log_end = os.pipe()
        reports, reports_end = os.pipe()
        os.close(log_end)

        def child() -> None:
            with os.fdopen(reports_end, "wb") as file, theirs:
                try:
                    file.write(report)
                    file.flush()
                    theirs.sendall(json.dumps(OUTCOME).encode())
                except OSError:
                    os.close(os.dup(file.fileno()))

        thread = threading.Thread(target=child)
        thread.start()
        run = Run(ours, log, reports, Limits(1 << 30, 30, 1), hooks or Hooks())
        try:
            follow(run)
            return judge(run)
        finally:
            os.close(log)
            os.close(reports)
            ours.close()
            thread.join()

    return call


def test_progress_and_result_are_taken(followed: Followed) -> None:
    told: list[tuple[float, str]] = []
    lines = b'{"progress": 7, "message": "%s"}\n{"result": {"a": [1]}}\n' % (b"x" * 600)
    finished = followed(lines, Hooks(on_progress=lambda share, message: told.append((share, message))))
    assert finished.result == {"a": [1]}
    assert told == [(1.0, "x" * 500)]


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (b"nonsense\n", "line 1, column 1"),
        (b"[]\n", "not a JSON object"),
        (b'{"result": ' + b"[" * 100_000 + b"\n", "nested too deeply"),
        (b'{"result": [1]}\n', "result"),
        (b'{"result": {"a": "\\ud800"}}\n', "surrogates"),
        (b'{"progress": NaN}\n', "NaN is not a finite number"),
        (b'{"progress": "half"}\n', "progress"),
        (b'{"error": {"message": "no code"}}\n', "error"),
        (b'{"error": {"code": "X", "message": ["no text"]}}\n', "error.message"),
        (b"\xff\n", "invalid start byte"),
    ],
    ids=["text", "array", "deep", "other", "unicode", "nan", "progress", "code", "message", "bytes"],
)
def test_a_report_that_is_not_one_is_a_crash(followed: Followed, report: bytes, reason: str) -> None:
    with pytest.raises(StageCrashed, match=f"its report cannot be read: .*{reason}"):
        followed(report)


def test_a_report_without_end_is_not_collected(followed: Followed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REPORT_BYTES", 1 << 20)
    with pytest.raises(StageCrashed, match="longer than 1 MiB"):
        followed(b"x" * (2 << 20))


def test_an_unexpected_exception_is_a_failed_stage(followed: Followed) -> None:
    with pytest.raises(StageFailed, match=r"^ValueError: no$"):
        followed(b'{"unexpected": "ValueError: no"}\n')
