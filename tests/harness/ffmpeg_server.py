"""FFmpeg's own program as a server of one stream, which serves one reader: RTMP."""

from __future__ import annotations

import subprocess
from types import TracebackType

import imageio_ffmpeg

from tests.harness.ports import free_port
from tests.harness.processes import local_ports, stop
from tests.harness.until import until

PICTURES = "-re -f lavfi -i testsrc=size=64x48:rate=24 -c:v libx264 -tune zerolatency -g 12 -pix_fmt yuv420p -f flv"


class RtmpServer:
    """It keeps its port when it is started again, as it has to be for each reader."""

    def __init__(self) -> None:
        self._port = free_port()
        self.url = f"rtmp://127.0.0.1:{self._port}/live/camera"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> RtmpServer:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.kill()

    def start(self) -> None:
        """Anew; returns when it listens."""
        self.kill()
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "quiet", *PICTURES.split(), "-listen", "1", self.url]
        self._process = process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        until(lambda: self._port in local_ports([process.pid]))

    def kill(self) -> None:
        """Its connection ends with it."""
        if self._process is not None:
            with self._process as process:
                process.kill()
            self._process = None

    def freeze(self) -> None:
        """Its connection stays."""
        assert self._process is not None
        stop([self._process.pid])
