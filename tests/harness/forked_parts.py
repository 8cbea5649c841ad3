"""What a part that is forked does in the tests of that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path


def say(path: str) -> None:
    Path(path).write_text(json.dumps({"environment": dict(os.environ), "session": os.getsid(0)}))
    signal.pause()


def fail(code: int) -> None:
    sys.exit(code)


def crash() -> None:
    raise RuntimeError("a fault of the part")


def start_another(path: str) -> None:
    other = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    Path(path).write_text(str(other.pid))
    signal.pause()


def obey(path: str) -> None:
    def end(*_: object) -> None:
        Path(path).write_text("by SIGTERM")
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    print("ready", flush=True)
    signal.pause()
