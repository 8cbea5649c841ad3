"""The pictures of a call: decoded, and kept for a while for later stages of the same frame. A job's stream of H264
packets, one picture each, is decoded in order."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from multipart import parse_options_header
from PIL import Image

from app.edge.errors import BadPicture
from app.edge.video.stage_host.errors import NoDecoder
from app.inference.errors import DamagedPicture
from app.inference.picture_codec import MAX_PIXELS, decode
from app.inference.prediction import Picture
from app.kit.errors import BadRequest, ModelmillError
from app.video.model.stage_call import H264, JPEG, KEPT, PNG, RAW, Call, Encoded, KeyframeNeeded, PictureNotKept

MOST_STREAMS = 64
_NAL = re.compile(rb"\x00\x00\x01(.)", re.DOTALL)
_IDR = 5
_HINT = "Begin again with a keyframe."


def has_keyframe(packet: bytes) -> bool:
    """Returns whether an H.264 packet (Annex B) has a picture that can be decoded without earlier ones."""
    return any(match[1][0] & 0x1F == _IDR for match in _NAL.finditer(packet))


class H264Decoder:
    """Decodes one stream. For one thread at a time, which holds `turn`."""

    def __init__(self) -> None:
        self.turn = asyncio.Condition()
        """Held while decoding, and waited for until the packet is next."""
        self._codec: Any = None
        self._seq: int | None = None

    def is_next(self, packet: bytes, seq: int | None) -> bool:
        """Returns whether the packet can be decoded now; also true for one that is too late."""
        if seq is None or has_keyframe(packet) or self.is_past(seq):
            return True
        return self._codec is not None and self._seq is not None and seq == self._seq + 1

    def is_past(self, seq: int) -> bool:
        """Returns whether this packet or a later one was decoded."""
        return self._seq is not None and seq <= self._seq

    def picture(self, packet: bytes, seq: int | None) -> Picture:
        """Decodes a packet.

        Args:
            seq: its number, if the sender counts packets.

        Raises:
            KeyframeNeeded, NoDecoder: It cannot be decoded.
        """
        av = _load_av()
        if has_keyframe(packet):
            self._codec = av.CodecContext.create("h264", "r")
            self._codec.thread_count = 1
            self._codec.flags |= av.codec.context.Flags.low_delay
        elif self._codec is None or (seq is not None and seq != (self._seq or 0) + 1):
            self._codec = self._codec if seq is not None and self.is_past(seq) else None
            raise KeyframeNeeded("A packet before this one has not come, or one after it has.", hint=_HINT)
        try:
            frames = self._codec.decode(av.Packet(packet))
        except av.FFmpegError as error:
            self._codec = None
            raise KeyframeNeeded(f"The packet cannot be decoded: {error.strerror}.", hint=_HINT) from None
        if len(frames) != 1 or frames[0].is_corrupt:
            self._codec = None
            raise KeyframeNeeded(f"The packet holds {len(frames)} whole pictures, and not one.", hint=_HINT)
        self._seq = seq
        picture: Picture = frames[0].to_ndarray(format="rgb24")
        return picture


class H264Decoders:
    """Decoders by job and field; the most recently used ones are kept."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self._decoders: OrderedDict[tuple[str, str], H264Decoder] = OrderedDict()

    def of(self, job: str, field: str) -> H264Decoder:
        stream = self._decoders.setdefault((job, field), H264Decoder())
        self._decoders.move_to_end((job, field))
        while len(self._decoders) > self._most:
            self._decoders.popitem(last=False)
        return stream

    def __len__(self) -> int:
        return len(self._decoders)


def _load_av() -> Any:
    """Loads the library.

    Raises:
        NoDecoder: It is not installed.
    """
    try:
        import av
    except ImportError as error:
        raise NoDecoder(
            "This node cannot read H264: it has no PyAV.", hint="Install modelmill[edge] there, or send JPEG."
        ) from error
    return av


MOST_BYTES = 64 << 20
MOST_FRAMES = 64
"""Frames of a job that are kept."""
ARRIVAL_S = 0.5
"""Seconds that a call naming a picture waits for the call with that picture, and a packet for the one before it: they
are sent at once, each on its own connection."""
THREADS = 2
Pictures = tuple[Picture, ...]
Key = tuple[str, str, str]
"""Job, frame, field."""


class RecentPictures:
    """Pictures of the newest frames, limited in bytes over all jobs and in frames of each."""

    def __init__(self, most_bytes: int = MOST_BYTES, most_frames: int = MOST_FRAMES) -> None:
        self._most_bytes = most_bytes
        self._most_frames = most_frames
        self._pictures: OrderedDict[Key, Pictures] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._pictures)

    def get(self, key: Key) -> Pictures | None:
        return self._pictures.get(key)

    def keep(self, key: Key, pictures: Pictures) -> None:
        self._drop(key)
        self._pictures[key] = pictures
        self.bytes += _measure_size(pictures)
        frames = list(dict.fromkeys(frame for job, frame, _ in self._pictures if job == key[0]))
        for frame in frames[: -self._most_frames]:
            for old in [each for each in self._pictures if each[:2] == (key[0], frame)]:
                self._drop(old)
        while self.bytes > self._most_bytes and self._pictures:
            self._drop(next(iter(self._pictures)))

    def _drop(self, key: Key) -> None:
        dropped = self._pictures.pop(key, None)
        self.bytes -= _measure_size(dropped) if dropped else 0


class PictureCache:
    """For the event loop; threads decode. The packets of one stream are decoded one after the other."""

    def __init__(self) -> None:
        self.kept = RecentPictures()
        self.streams = H264Decoders()
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="picture")
        self._arrived = asyncio.Condition()

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def of(self, call: Call) -> dict[str, Pictures]:
        """Returns the pictures of a call by name.

        Raises:
            BadPicture, BadRequest, PictureNotKept, KeyframeNeeded, NoDecoder: One is not available.
        """
        return {name: await self._read_field(call, name, several) for name, several in call.pictures.items()}

    async def _read_field(self, call: Call, name: str, several: Sequence[Encoded]) -> Pictures:
        key = (call.job, call.frame, name)
        kinds = {_get_kind(encoded) for encoded in several}
        if kinds == {KEPT}:
            return await self._get_kept(key)
        is_kept = bool(call.job and call.frame)
        if kinds == {H264} and is_kept and (known := self.kept.get(key)) and self._is_past(call.job, name, several[-1]):
            return known
        try:
            pictures = tuple([await self._read_picture(call.job, name, encoded) for encoded in several])
        except ModelmillError as error:
            raise type(error)(f"The field {name}: {error.message}", hint=error.hint, detail=error.detail) from None
        if is_kept:
            async with self._arrived:
                self.kept.keep(key, pictures)
                self._arrived.notify_all()
        return pictures

    async def _get_kept(self, key: Key) -> Pictures:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ARRIVAL_S), self._arrived:
                await self._arrived.wait_for(lambda: self.kept.get(key) is not None)
        picture = self.kept.get(key)
        if picture is None:
            raise PictureNotKept(f"The frame {key[1] or '?'} is not kept here.", hint="Send its picture.")
        return picture

    async def _read_picture(self, job: str, name: str, encoded: Encoded) -> Picture:
        kind, options = parse_options_header(encoded.content_type)
        if kind == H264:
            return await self._decode_packet(self.streams.of(job, name), encoded.data, _read_seq(options))
        if kind == RAW:
            return _decode_raw(encoded.data, options)
        if kind not in (JPEG, PNG):
            raise NoDecoder(f"A picture of the type {kind[:80]!r} cannot be read here.", hint=f"Send {JPEG} or {PNG}.")
        return await self._in_thread(lambda: _decode(encoded.data))

    def _is_past(self, job: str, name: str, encoded: Encoded) -> bool:
        seq = _read_seq(parse_options_header(encoded.content_type)[1])
        return seq is not None and self.streams.of(job, name).is_past(seq)

    async def _decode_packet(self, stream: H264Decoder, packet: bytes, seq: int | None) -> Picture:
        async with stream.turn:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ARRIVAL_S):
                    await stream.turn.wait_for(lambda: stream.is_next(packet, seq))
            try:
                return await self._in_thread(lambda: stream.picture(packet, seq))
            finally:
                stream.turn.notify_all()

    async def _in_thread(self, make: Callable[[], Picture]) -> Picture:
        return await asyncio.get_running_loop().run_in_executor(self._threads, make)


def _measure_size(pictures: Pictures) -> int:
    return sum(picture.nbytes for picture in pictures)


def _get_kind(encoded: Encoded) -> str:
    return encoded.content_type.partition(";")[0].strip().lower()


def _decode(data: bytes) -> Picture:
    try:
        picture = decode(data)
    except DamagedPicture as error:
        raise BadPicture(error.message, hint=error.hint) from None
    return picture if picture.ndim == 3 else np.asarray(Image.fromarray(picture).convert("RGB"))


def _decode_raw(data: bytes, options: Mapping[str, str]) -> Picture:
    width, height = (_parse_whole(options.get(name), name) for name in ("width", "height"))
    if not 0 < width * height <= MAX_PIXELS or len(data) != width * height * 3:
        raise BadPicture(f"{len(data)} bytes are no picture of {width} x {height} pixels of three bytes.")
    return np.frombuffer(data, np.uint8).reshape(height, width, 3)


def _read_seq(options: Mapping[str, str]) -> int | None:
    return _parse_whole(options["seq"], "seq") if "seq" in options else None


def _parse_whole(text: str | None, name: str) -> int:
    if not text or not text.isdecimal() or len(text) > 15:
        raise BadRequest(f"{name} is to be a whole number.")
    return int(text)
