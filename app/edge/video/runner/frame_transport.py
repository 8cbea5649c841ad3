"""The transport of pictures to the stage hosts: raw on the same machine, as JPEG or H264 to others."""

from __future__ import annotations

import importlib
import io
import threading
from fractions import Fraction
from typing import Any

from PIL import Image

from app.edge.media.picture_sizes import Size, size_of
from app.inference.picture_codec import QUALITY, encode
from app.inference.prediction import Picture
from app.video.model.stage_call import H264, KEPT, RAW, Encoded

KEYFRAME_EVERY = 250


class OutgoingPictures:
    """One picture of a frame, or the pictures of a clip. The JPEG is made once, when it is needed. Any number of
    threads may use it."""

    def __init__(self, name: str, *pictures: Picture) -> None:
        """Creates it. `name` is the name under which a host may keep it."""
        self.name = name
        self.pictures = pictures
        self._jpeg: tuple[Encoded, ...] | None = None
        self._lock = threading.Lock()
        self._transfers: dict[str, Transfer] = {}

    @property
    def picture(self) -> Picture:
        return self.pictures[0]

    @property
    def size(self) -> Size:
        return size_of(self.pictures[0])

    def raw(self) -> tuple[Encoded, ...]:
        return tuple(_encode_raw(picture) for picture in self.pictures)

    def jpeg(self) -> tuple[Encoded, ...]:
        with self._lock:
            if self._jpeg is None:
                self._jpeg = tuple(Encoded(*encode(picture)) for picture in self.pictures)
            return self._jpeg

    def transfer(self, host: str, field: str) -> Transfer:
        """Returns its transfer to this host, for the input with this name."""
        with self._lock:
            return self._transfers.setdefault(f"{host} {field}", Transfer())


class Transfer:
    """The transfer of a picture to a host: one call sends it; all others refer to it by name once it is on its way."""

    def __init__(self) -> None:
        self.sent = threading.Event()
        """Set when it is on its way, or could not be sent."""
        self._is_claimed = False
        self._lock = threading.Lock()

    def claim(self) -> bool:
        """Returns True to the first caller, who has to send the picture."""
        with self._lock:
            was_claimed, self._is_claimed = self._is_claimed, True
            return not was_claimed


KEPT_THERE = (Encoded(b"", KEPT),)


def _encode_raw(picture: Picture) -> Encoded:
    width, height = size_of(picture)
    return Encoded(picture.tobytes(), f"{RAW};width={width};height={height}")


class H264Encoder:
    """The H264 stream of a job to one host: packets in order, one frame each."""

    def __init__(self) -> None:
        self.turn = threading.Lock()
        """Held from the encoding of a packet until it is on its way."""
        self._context: Any = None
        self._size: Size = (0, 0)
        self._count = 0
        self.seq = 0
        """The number of the last packet."""
        self._begun = 0
        """The number of the last requested keyframe."""

    def packet(self, picture: Picture, *, lost: int = 0) -> Encoded:
        """Encodes a picture.

        Args:
            picture: the picture.
            lost: the number of a packet that could not be decoded: a keyframe is made, unless there was one since.

        Raises:
            RuntimeError: It cannot be encoded.
        """
        if self._context is None or self._begun <= lost or self._size != size_of(picture):
            self._context, self._size, self._count = _make_encoder(size_of(picture)), size_of(picture), 0
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


def _make_encoder(size: Size) -> Any:
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


class H264Uplinks:
    """The encoders of a job, one for each host and input."""

    def __init__(self, *, h264: bool | None = None) -> None:
        self.h264 = has_h264() if h264 is None else h264
        """Whether this node can encode it."""
        self._refused: set[str] = set()
        self._encoders: dict[tuple[str, str], H264Encoder] = {}
        self._lock = threading.Lock()

    def takes_h264(self, host: str) -> bool:
        return self.h264 and host not in self._refused

    def refused(self, host: str) -> None:
        """Records that this host has no decoder."""
        self._refused.add(host)

    def encoder(self, host: str, field: str) -> H264Encoder:
        """Returns the encoder: a host has a decoder for each input."""
        with self._lock:
            return self._encoders.setdefault((host, field), H264Encoder())


def jpeg_bytes(picture: Picture) -> bytes:
    """Returns a JPEG, also for a small picture."""
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=QUALITY)
    return file.getvalue()
