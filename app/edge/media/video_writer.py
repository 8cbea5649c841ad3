"""Encodes pictures into a video."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from app.edge.media.picture_sizes import Size
from app.inference.prediction import Picture

KEYFRAME_EVERY_S = 2.0
"""A clip can start at these."""
MILLISECONDS = Fraction(1, 1000)


@dataclass(frozen=True)
class VideoFormat:
    """An encoder, and the container of its packets."""

    encoder: str
    container: str
    media_type: str
    options: Mapping[str, str]


NO_ENCODER = "PyAV is not installed on the node, or has no encoder for H.264 or VP8"
FORMATS = (
    VideoFormat(
        "libx264", "mp4", "video/mp4", {"preset": "ultrafast", "tune": "zerolatency", "crf": "28", "forced-idr": "1"}
    ),
    VideoFormat("libopenh264", "mp4", "video/mp4", {}),
    VideoFormat("libvpx", "webm", "video/webm", {"deadline": "realtime", "cpu-used": "8", "crf": "30", "b": "1M"}),
)
"""Those that browsers play, the best first."""


def available_format() -> VideoFormat | None:
    """Returns the best of FORMATS that this machine can write; None: there is none, or no PyAV."""
    try:
        import av
    except ImportError:
        return None
    for each in FORMATS:
        with suppress(Exception):  # which errors an unknown encoder raises depends on PyAV's version
            av.codec.Codec(each.encoder, "w")
            return each
    return None


class VideoWriter:
    """Encodes pictures of one size into a container. Only one thread may use it."""

    def __init__(self, container: Any, format: VideoFormat, size: Size, begins_s: float) -> None:
        """
        Args:
            container: of PyAV, open for writing, without streams.
            format: of the video.
            size: of its pictures, both sides even.
            begins_s: the time of its first picture.
        """
        self.begins_s = self.ends_s = begins_s
        self.size = size
        self.frames = 0
        self._key_at_s = begins_s
        self._container = container
        stream: Any = self._container.add_stream(format.encoder, rate=30, options=dict(format.options))
        self._stream = stream
        self._stream.width, self._stream.height = size
        self._stream.pix_fmt = "yuv420p"
        self._stream.codec_context.time_base = MILLISECONDS
        self._stream.codec_context.thread_count = 1
        self._last = -1

    def add(self, picture: Picture, at_s: float) -> None:
        """Raises av.FFmpegError."""
        import av

        frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuv420p")
        frame.pts = self._last = max(self._last + 1, round((at_s - self.begins_s) * 1000))
        frame.time_base = MILLISECONDS
        if at_s >= self._key_at_s:
            frame.pict_type = av.video.frame.PictureType.I
            self._key_at_s = at_s + KEYFRAME_EVERY_S
        self._container.mux(self._stream.encode(frame))
        self.frames += 1
        self.ends_s = max(self.ends_s, at_s)

    def finish(self) -> None:
        """Writes what is left, and closes the container. Raises av.FFmpegError."""
        try:
            self._container.mux(self._stream.encode(None))
        finally:
            self._container.close()
