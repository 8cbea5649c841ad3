"""FFmpeg's own program as a server of one stream, which serves one reader: by RTMP or SRT."""

from __future__ import annotations

import subprocess
from types import TracebackType

import imageio_ffmpeg

from tests.harness.ports import free_port
from tests.harness.processes import local_ports, stop
from tests.harness.until import until

PICTURES = "-re -f lavfi -i testsrc=size=64x48:rate=24 -c:v libx264 -tune zerolatency -g 12 -pix_fmt yuv420p"
SOUND = "-re -f lavfi -i sine -c:a mp2"
BY_RTMP, BY_SRT = "-f flv -listen 1", "-f mpegts"


class FfmpegServer:
    """It keeps its port when it is started again, as it has to be for each reader.

    Args:
        scheme: rtmp or srt.
        content: the options of FFmpeg that say what it sends.
    """

    def __init__(self, scheme: str, content: str = PICTURES) -> None:
        self._port, self._content, self._scheme = free_port(), content, scheme
        self.url = f"{scheme}://127.0.0.1:{self._port}{'' if scheme == 'srt' else '/live/camera'}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> FfmpegServer:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.kill()

    def start(self, query: str = "?mode=listener") -> None:
        """Anew; returns when it has its port.

        Args:
            query: of SRT.
        """
        self.kill()
        way = [*BY_SRT.split(), self.url + query] if self._scheme == "srt" else [*BY_RTMP.split(), self.url]
        command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "quiet", *self._content.split(), *way]
        self._process = process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        until(lambda: self._port in local_ports([process.pid]) or "listener" not in query)

    def end(self) -> None:
        """It says so to its reader."""
        assert self._process is not None
        self._process.terminate()

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
