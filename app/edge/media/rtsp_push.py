"""Encodes pictures and pushes them to an RTSP server, in a process of its own: PyAV holds the interpreter's lock while
it connects, and only its end interrupts a server that takes nothing.

`python -m app.edge.media.rtsp_push FD` is that process; FD is its end of a socket pair.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import suppress

import numpy as np

from app.edge.media.picture_sizes import Size
from app.edge.media.video_writer import NO_ENCODER, VideoWriter, available_format
from app.inference.prediction import Picture
from app.inference.sources.refusals import explain_stream
from app.kit.process.child_protocol import receive, send
from app.kit.process.spawn import python_module, spawn
from app.kit.text.json_values import JsonObject

CONNECT_S, TAKE_S = 20.0, 10.0
"""Seconds for the first frame, with the start of the process and the connection, and for each further one."""
STALLED = "the media server takes nothing"


class PushFailed(Exception):
    """The server does not take the stream; the text says why, without its URL."""


class RtspPush:
    """A stream to an RTSP server. Only one thread may use it."""

    def __init__(self, url: str, size: Size) -> None:
        """Starts the process; the first picture opens the connection.

        Args:
            url: of the stream, perhaps with user and password.
            size: of the pictures, both sides even.
        """
        self.size = size
        self._url = url
        self._end, theirs = socket.socketpair()
        with theirs:
            command = python_module("app.edge.media.rtsp_push", str(theirs.fileno()))
            self._process = spawn(command, env=os.environ, pass_fds=[theirs.fileno()], has_session=False)
        self._cpu_s = 0.0
        self._is_open = False

    def send(self, picture: Picture, at_s: float) -> float:
        """Sends a picture.

        Args:
            picture: H×W×3, uint8, of `size`.
            at_s: its time, in monotonic seconds.

        Returns:
            The seconds of computation that it took there.

        Raises:
            PushFailed: The server has not taken it.
        """
        self._end.settimeout(TAKE_S if self._is_open else CONNECT_S)
        header = {"at_s": at_s, "size": self.size} | ({} if self._is_open else {"url": self._url})
        try:
            send(self._end, header, [np.ascontiguousarray(picture).data.cast("B")])
            answer, _ = receive(self._end)
        except TimeoutError:
            raise PushFailed(STALLED) from None
        except (OSError, EOFError, ValueError):
            raise PushFailed("the process that pushes has ended") from None
        if "error" in answer:
            raise PushFailed(answer["error"])
        self._is_open = True
        spent_s, self._cpu_s = answer["cpu_s"] - self._cpu_s, answer["cpu_s"]
        return float(spent_s)

    def close(self) -> None:
        """Ends the stream, or the process if it is stuck."""
        self._end.close()
        try:
            self._process.wait(1)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def main(end: socket.socket) -> None:
    writer: VideoWriter | None = None
    url = ""
    with suppress(EOFError, OSError):
        while True:
            header, (pixels,) = receive(end)
            url = header.get("url", url)
            try:
                writer = writer or _open_writer(header)
                writer.add(np.frombuffer(pixels, np.uint8).reshape(*reversed(header["size"]), 3), header["at_s"])
            except Exception as error:  # noqa: BLE001  # those of PyAV have no class in common; their text has the URL
                send(end, {"error": _explain(error, url)[:200]})
                break
            send(end, {"cpu_s": time.process_time()})
    if writer is not None:
        with suppress(Exception):  # of a connection that has ended
            writer.finish()


def _explain(error: Exception, url: str) -> str:
    return explain_stream(error, url) or getattr(error, "strerror", None) or type(error).__name__


def _open_writer(header: JsonObject) -> VideoWriter:
    import av

    format = available_format()
    if format is None:
        raise OSError(0, NO_ENCODER)
    container = av.open(header["url"], "w", format="rtsp", options={"rtsp_transport": "tcp"})
    return VideoWriter(container, format, header["size"], header["at_s"])


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])))
