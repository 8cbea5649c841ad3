"""A real RTSP server, GStreamer's from Debian, with a camera that can die, stand still and lose its picture."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from tests.harness.ports import free_port
from tests.harness.processes import stop

PYTHON = "/usr/bin/python3"
PROGRAM = Path(__file__).with_name("rtsp_program.py")
NEEDS = """
import gi
gi.require_version("GstRtspServer", "1.0")
from gi.repository import Gst
Gst.init(None)
assert all(map(Gst.ElementFactory.find, ("videotestsrc", "x264enc", "rtph264pay", "h264parse")))
"""


@cache
def has_rtsp_server() -> bool:
    if not Path(PYTHON).exists():
        return False
    return subprocess.run([PYTHON, "-I", "-c", NEEDS], capture_output=True, check=False).returncode == 0


class RtspServer:
    """It keeps its port when it is started again."""

    def __init__(self, options: tuple[str, ...]) -> None:
        """options: of the program, which says them."""
        self.port = free_port()
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    def url(self, credentials: str = "", path: str = "cam") -> str:
        return f"rtsp://{credentials and credentials + '@'}127.0.0.1:{self.port}/{path}"

    def start(self) -> None:
        """Returns when it listens."""
        command = [PYTHON, "-I", str(PROGRAM), str(self.port), *self._options]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        """Its connections end with it."""
        if self._process is not None:
            with self._process as process:
                process.kill()
            self._process = None

    def freeze(self) -> None:
        """Its connections stay, and the system takes further ones for it."""
        assert self._process is not None
        stop([self._process.pid])

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def cover_lens(self) -> None:
        """It goes on without pictures, for those who watch now."""
        assert self._process is not None
        self._process.send_signal(signal.SIGUSR1)


@contextmanager
def rtsp_server(*options: str) -> Iterator[RtspServer]:
    """Skips where it is not installed."""
    if not has_rtsp_server():
        pytest.skip("GStreamer's RTSP server is not installed; ops/test does it")
    server = RtspServer(options)
    server.start()
    try:
        yield server
    finally:
        server.kill()
