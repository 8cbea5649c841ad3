"""Video files, animated pictures and network streams, by PyAV (the extra `edge`)."""

from __future__ import annotations

import errno
import importlib
import os
import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from app.inference.errors import DecoderMissing, SourceUnusable
from app.inference.picture_codec import MAX_PIXELS
from app.inference.prediction import Picture
from app.inference.sources.camera_thread import CameraSilent, read_camera
from app.inference.sources.containers import is_cut, is_empty
from app.inference.sources.frames import LazyFrame
from app.inference.sources.hardware_decoder import hardware_decoder
from app.inference.sources.pipe import NamedPipe
from app.inference.sources.refusals import AUTHORITIES, describe, explain_local, explain_stream
from app.inference.sources.srt import SrtRefused, SrtStream, is_srt, require_libsrt

TIMEOUT_S = 10.0
"""Seconds to open a stream, and for each picture of it."""
CONTAINERS = "mov,mp4,matroska,webm,avi,gif,apng,mpegts,mpeg,mpegvideo,mjpeg,h264,hevc,av1,ivf,flv,ogg,asf,wav"
"""Formats of files that contain their pictures; not playlists, since these name other files."""
OF_FILE = {"protocol_whitelist": "file", "format_whitelist": CONTAINERS}
OF_STREAM = {
    "protocol_whitelist": "rtsp,rtsps,rtp,srtp,rtmp,rtmps,rtmpt,rtmpts,udp,tcp,tls,http,https,httpproxy,crypto",
    "rtsp_flags": "prefer_tcp",
}
"""Options for streams: FFmpeg follows what a stream names, but never to a file. UDP is used only for a camera that
refuses TCP."""
TRANSPORTS = {"rtspt": "tcp", "rtspu": "udp"}
"""GStreamer's schemes of RTSP that name the transport; rtsp itself leaves it to the camera."""
CAMERA, OF_DEVICE = "v4l2", dict[str, str]()
"""Cameras of this machine, by Video4Linux2."""
ENDED = "the other side has ended the stream"
UNTIMED = 0x80
"""FFmpeg's flag of formats without times, such as a camera's MJPEG: it derives them from a usual rate."""
LOST = frozenset({errno.EIO, errno.ECONNRESET, errno.EPIPE})
"""FFmpeg's errors for an interrupted stream, and for a host without an address."""
MICROSECONDS = 1_000_000
"""FFmpeg's unit of durations."""
END_S = 2.0
"""A stream with a duration may end this many seconds before it."""


class Video:
    """A video, read from its start."""

    def __init__(self, place: str, name: str, *, live: bool) -> None:
        """
        Args:
            place: A path or a URL; of a camera of this machine, its device; or a named pipe.
            name: Of it, for a reader, without a password.
            live: It comes by itself, and has no end but one that it tells beforehand.

        Raises:
            DecoderMissing: Without PyAV; for SRT without libsrt.
        """
        self._av = require_pyav(name)
        if is_srt(place):
            require_libsrt(name)
        self._place, self._name, self._live = place, name, live
        self._is_pipe = live and Path(place).is_fifo()
        self._is_device = live and place.startswith("/") and not self._is_pipe
        self.fps = 0.0
        self.is_endless = live

    def frames(self) -> Generator[LazyFrame, None, None]:
        if not self._is_device:
            yield from self._read()
            return
        has_begun = False
        try:
            for lazy_frame in read_camera(self._place, self._read, TIMEOUT_S):
                has_begun = True
                yield lazy_frame
        except CameraSilent:
            if not has_begun:
                raise self._refusal(_describe_silence()) from None
            yield LazyFrame(f"{self._name} (its end)", None, reason=_describe_silence(), is_cut=True)

    def _read(self) -> Generator[LazyFrame, None, None]:
        with self._open() as container:
            stream = container.streams.video[0]
            is_timed = not (self._live and container.format.flags & UNTIMED)
            self.is_endless = self._live and container.duration is None
            self.fps = float(stream.average_rate or 0) if is_timed else 0.0
            index, count, at, is_over = 0, 0, 0.0, False
            decoder = hardware_decoder().context_of(stream)
            for packet in self._iterate_packets(container, stream):
                if isinstance(packet, LazyFrame):
                    yield packet
                    is_over = True
                    continue
                for lazy_frame in self._decode(decoder, packet, stream, index, is_timed=is_timed):
                    yield lazy_frame
                    index, count, at = index + 1, count + (lazy_frame.read is not None), lazy_frame.at or at
            if not is_over and (reason := self._cut(container, stream, count, at)):
                yield LazyFrame(f"{self._name} (its end)", None, reason=reason, is_cut=True)

    def there(self) -> str:
        """Says how many frames of a file that is cut off are there, by the index at its beginning; empty: it has none.

        Raises:
            SourceUnusable: It cannot be opened.
        """
        with self._open() as container:
            stream = container.streams.video[0]
            size, index = Path(self._place).stat().st_size, list(stream.index_entries)
            count = sum(entry.pos + entry.size <= size for entry in index)
            return f"{count} of {length_of(container, stream)} are there" if 0 < count < len(index) else ""

    @contextmanager
    def _open(self) -> Iterator[Any]:
        began = time.monotonic()
        with ExitStack() as opened:
            try:
                place, options = self._connect(opened)
                container = opened.enter_context(
                    self._av.open(
                        place,
                        format=CAMERA if self._is_device else None,
                        options=options,
                        timeout=TIMEOUT_S if self._live else None,
                        **hardware_decoder().options(),
                    )
                )
            except (self._av.FFmpegError, PermissionError, SrtRefused) as error:
                raise self._refusal(self._explain_failure(error, time.monotonic() - began)) from error
            if problem := _find_problem(container):
                raise SourceUnusable(f"{self._name} {problem}{self._end()}", hint="Give another source.")
            yield container

    def _refusal(self, reason: str) -> SourceUnusable:
        return SourceUnusable(
            f"{self._name} cannot be opened as a video: {reason}",
            hint="Check that it is there, and that it is a video.",
        )

    def _connect(self, opened: ExitStack) -> tuple[str | NamedPipe | SrtStream, dict[str, str]]:
        """Returns what FFmpeg reads, by its own means or by ours, and the options for it."""
        silence = partial(self._av.error.ExitError, 0, "")
        if self._is_pipe:
            return opened.enter_context(NamedPipe(self._place, patience_s=TIMEOUT_S, silence=silence)), OF_FILE
        if is_srt(self._place):
            return opened.enter_context(SrtStream(self._place, patience_s=TIMEOUT_S, silence=silence)), OF_FILE
        if self._live and not self._is_device:
            return stream_options(self._place)
        return self._place, OF_DEVICE if self._is_device else OF_FILE

    def _iterate_packets(self, container: Any, stream: Any) -> Iterator[Any]:
        """Ends where the file is cut off: what follows cannot be found. The cut counts as one damaged frame.

        Of a stream all packets are read, so that one that gives only sound is seen to give no pictures. When it gives
        nothing, FFmpeg's first answer is the rest of what it had, and only the next, as long after, that there is none.
        """
        packets = container.demux() if self._live else container.demux(stream)
        silent_s, reason = 0.0, ""
        while not reason:
            began = time.monotonic()
            try:
                packet = next(packets, None)
            except self._av.FFmpegError as error:  # of RTMP also when it has waited so long
                is_silent = self._live and silent_s + time.monotonic() - began >= TIMEOUT_S
                reason = _describe_silence() if is_silent else self._describe_error(error)
                break
            silent_s += time.monotonic() - began
            if self._live and silent_s >= TIMEOUT_S:
                reason = _describe_silence()
            elif packet is None:
                return
            elif packet.stream.index == stream.index:
                silent_s = 0.0
                yield packet
        yield LazyFrame(f"{self._name} (its end)", None, reason=reason, is_cut=True)

    def _cut(self, container: Any, stream: Any, count: int, at: float) -> str:
        """Why that was not the end; empty: it was. count, at: of its whole frames, and time of the last of them."""
        if not self._live:
            return f"{count} of {length_of(container, stream)} are there" if self._end() else ""
        lasts_s = container.duration / MICROSECONDS if container.duration else float("inf")
        return ENDED if at < lasts_s - END_S else ""

    def _explain_failure(self, error: BaseException, after_s: float) -> str:
        """Why it could not be opened. FFmpeg calls a host that says nothing `Invalid data` in some places."""
        if self._live and after_s >= TIMEOUT_S:
            return _describe_silence()
        if self._is_device:
            return explain_local(error) or describe(error)
        if self._live and isinstance(error, self._av.error.EOFError):
            return ENDED
        is_local = self._is_pipe or not self._live
        return (explain_local(error) if is_local else explain_stream(error, self._place)) or self._describe_error(error)

    def _describe_error(self, error: BaseException) -> str:
        """FFmpeg's word for our own patience is `Immediate exit requested`."""
        if not self._live and is_empty(Path(self._place)):
            return "it is empty"
        if isinstance(error, self._av.error.ExitError):
            return _describe_silence()
        if self._live and getattr(error, "errno", 0) in LOST:
            return "the connection was lost"
        return describe(error) + self._end()

    def _end(self) -> str:
        """To be added to what is wrong with a file that is not whole."""
        return "" if self._live or not is_cut(Path(self._place)) else "; the file ends before its own headers say"

    def _decode(self, decoder: Any, packet: Any, stream: Any, index: int, *, is_timed: bool) -> Iterator[LazyFrame]:
        try:
            frames = decoder.decode(packet)
        except self._av.FFmpegError as error:
            yield LazyFrame(f"{self._name}#{index}", None, reason=describe(error))
            return
        for offset, frame in enumerate(frames):
            origin = f"{self._name}#{index + offset}"
            if frame.is_corrupt:
                yield LazyFrame(origin, None, reason="the frame is corrupt")
            else:
                at = _read_time(frame, stream) if is_timed else None
                yield LazyFrame(origin, partial(_read_pixels, frame), at=at)


def stream_options(url: str) -> tuple[str, dict[str, str]]:
    """The URL of a stream as FFmpeg takes it, and its options."""
    scheme, _, rest = url.partition("://")
    transport = TRANSPORTS.get(scheme.lower())
    authorities = os.environ.get(AUTHORITIES, "")
    if authorities and scheme.lower() == "https":
        return url, {**OF_STREAM, "tls_verify": "1", "ca_file": authorities}
    if transport is None:
        return url, OF_STREAM
    return f"rtsp://{rest}", {"protocol_whitelist": OF_STREAM["protocol_whitelist"], "rtsp_transport": transport}


def _describe_silence() -> str:
    return f"it gave no picture for {TIMEOUT_S:g} s"


def _read_pixels(frame: Any) -> Picture:
    pixels: Picture = np.ascontiguousarray(frame.to_ndarray(format="rgb24"))
    return upright(pixels, frame)


def length_of(container: Any, stream: Any) -> str:
    """How many frames its container says that it has, for a reader."""
    lasts_s = (container.duration or 0) / MICROSECONDS
    count = stream.frames or round(float(stream.average_rate or 0) * lasts_s)
    return f"{count} frames" if count else "more frames"


def _read_time(frame: Any, stream: Any) -> float | None:
    """Seconds from the begin; None if the stream does not say."""
    if frame.time is None:
        return None
    return float(frame.time - (float(stream.start_time * stream.time_base) if stream.start_time else 0.0))


def _find_problem(container: Any) -> str:
    if not container.streams.video:
        return "has no picture in it, only sound" if container.streams.audio else "has no picture in it"
    context = container.streams.video[0].codec_context
    if context is None:
        return "is coded in a way that the FFmpeg of this node cannot decode"
    if context.width * context.height > MAX_PIXELS:
        return f"has frames of {context.width} x {context.height} pixels, more than the {MAX_PIXELS:,} that are read"
    return ""


def require_pyav(name: str) -> Any:
    """Checks that PyAV is installed.

    Raises:
        DecoderMissing: It is not; the message names the video.
    """
    try:
        return importlib.import_module("av")
    except ImportError as error:
        raise DecoderMissing(
            f"{name} is a video, and this node has no PyAV to read it with",
            hint="Install it: pip install 'modelmill[edge]'. Folders, pictures and .npz files need none.",
        ) from error


MATRIX = "DISPLAYMATRIX"


def upright(pixels: Picture, frame: Any) -> Picture:
    """The pixels of this frame of PyAV as players show them; what is turned by less than a right angle stays so."""
    given = frame.side_data.get(MATRIX)
    if given is None:
        return pixels
    across_x, across_y, _, down_x, down_y = np.frombuffer(given, np.int32)[:5].tolist()
    if abs(across_y) + abs(down_x) > abs(across_x) + abs(down_y):
        pixels, across_x, down_y = pixels.transpose(1, 0, 2), down_x, across_y
    if across_x < 0:
        pixels = pixels[:, ::-1]
    if down_y < 0:
        pixels = pixels[::-1]
    return np.ascontiguousarray(pixels)
