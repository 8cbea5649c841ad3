"""Pictures on their way to the hosts of the stages: raw on the same machine, JPEG or H264 to others."""

from __future__ import annotations

import importlib
import io
import threading
from fractions import Fraction
from typing import Any

from PIL import Image

from app.edge.video.runner.resize import Size, size_of
from app.inference.picture_codec import QUALITY, encode
from app.inference.prediction import Picture
from app.video.model.stage_call import H264, KEPT, RAW, Encoded

KEYFRAME_EVERY = 250


class Sendable:
    """One picture of a frame, or the several of a clip. Its JPEG is made once, when somebody needs it. name: under
    which a host may keep it. For any number of threads."""

    def __init__(self, name: str, *pictures: Picture) -> None:
        self.name = name
        self.pictures = pictures
        self._jpeg: tuple[Encoded, ...] | None = None
        self._lock = threading.Lock()
        self._ways: dict[str, Way] = {}

    @property
    def picture(self) -> Picture:
        return self.pictures[0]

    @property
    def size(self) -> Size:
        return size_of(self.pictures[0])

    def raw(self) -> tuple[Encoded, ...]:
        return tuple(_raw(picture) for picture in self.pictures)

    def jpeg(self) -> tuple[Encoded, ...]:
        with self._lock:
            if self._jpeg is None:
                self._jpeg = tuple(Encoded(*encode(picture)) for picture in self.pictures)
            return self._jpeg

    def way(self, host: str, field: str) -> Way:
        """How far it has come to that host under that name of an input."""
        with self._lock:
            return self._ways.setdefault(f"{host} {field}", Way())


class Way:
    """first: gives True to the one who is to send the picture; all others name it when it is on its way."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        self._taken = False
        self._lock = threading.Lock()

    def first(self) -> bool:
        with self._lock:
            was, self._taken = self._taken, True
            return not was


KEPT_THERE = (Encoded(b"", KEPT),)


def _raw(picture: Picture) -> Encoded:
    width, height = size_of(picture)
    return Encoded(picture.tobytes(), f"{RAW};width={width};height={height}")


class Stream:
    """The H264 of a job to one host: packets in order, each one frame. Who makes a packet holds `turn` until it is on
    its way. seq: of the last."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        self._context: Any = None
        self._size: Size = (0, 0)
        self._count = 0
        self.seq = 0
        self._begun = 0
        """The seq of the last keyframe that was asked for."""

    def packet(self, picture: Picture, *, lost: int = 0) -> Encoded:
        """lost: the seq of one that could not be decoded: a keyframe is made, unless there has been one since. Raises
        RuntimeError where it cannot be encoded."""
        if self._context is None or self._begun <= lost or self._size != size_of(picture):
            self._context, self._size, self._count = _encoder(size_of(picture)), size_of(picture), 0
            self._begun = self.seq + 1
        av = importlib.import_module("av")
        try:
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format="yuv420p")
            frame.pts = self._count
            self._count += 1
            data = b"".join(bytes(packet) for packet in self._context.encode(frame))
        except av.FFmpegError as error:
            self._context = None
            raise RuntimeError(f"H264 cannot be made: {error}") from error
        if not data:
            self._context = None
            raise RuntimeError("the encoder of H264 held the frame back")
        self.seq += 1
        return Encoded(data, f"{H264};seq={self.seq}")


def _encoder(size: Size) -> Any:
    av = importlib.import_module("av")
    context = av.CodecContext.create("libx264", "w")
    context.width, context.height = size
    context.pix_fmt = "yuv420p"
    context.time_base = Fraction(1, 30)
    context.thread_count = 1
    context.gop_size = KEYFRAME_EVERY
    context.options = {"preset": "veryfast", "tune": "zerolatency", "crf": "23"}
    return context


def has_h264() -> bool:
    try:
        return "libx264" in importlib.import_module("av").codecs_available
    except ImportError:
        return False


class Uplinks:
    """h264: can this node make it?"""

    def __init__(self, *, h264: bool | None = None) -> None:
        self.h264 = has_h264() if h264 is None else h264
        self._refused: set[str] = set()
        self._streams: dict[tuple[str, str], Stream] = {}
        self._lock = threading.Lock()

    def takes_h264(self, host: str) -> bool:
        return self.h264 and host not in self._refused

    def refused(self, host: str) -> None:
        """It has no decoder."""
        self._refused.add(host)

    def stream(self, host: str, field: str) -> Stream:
        """A host has a decoder for each name of an input."""
        with self._lock:
            return self._streams.setdefault((host, field), Stream())


def jpeg_bytes(picture: Picture, quality: int = QUALITY) -> bytes:
    """Always JPEG, for those who look at it."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=quality)
    return file.getvalue()
