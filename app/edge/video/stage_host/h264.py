"""A job's stream of H264 packets, each one picture, made pictures again."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from typing import Any

from app.edge.video.stage_host.errors import NoDecoder
from app.inference.prediction import Picture
from app.video.model.stage_call import KeyframeNeeded

MOST_STREAMS = 64
_NAL = re.compile(rb"\x00\x00\x01(.)", re.DOTALL)
_IDR = 5
_HINT = "Begin again with a keyframe."


def has_keyframe(packet: bytes) -> bool:
    return any(match[1][0] & 0x1F == _IDR for match in _NAL.finditer(packet))


class Stream:
    """One decoder. For one thread at a time: who has its turn, which is to be waited for until the packet is next."""

    def __init__(self) -> None:
        self.turn = asyncio.Condition()
        self._codec: Any = None
        self._seq: int | None = None

    def is_next(self, packet: bytes, seq: int | None) -> bool:
        """Is there nothing to wait for? True also of a packet that has come too late."""
        if seq is None or has_keyframe(packet) or self.is_past(seq):
            return True
        return self._codec is not None and self._seq is not None and seq == self._seq + 1

    def is_past(self, seq: int) -> bool:
        """Has it, or one after it, been decoded?"""
        return self._seq is not None and seq <= self._seq

    def picture(self, packet: bytes, seq: int | None) -> Picture:
        """seq: of the packet, where its sender counts them. Raises KeyframeNeeded, NoDecoder."""
        av = _av()
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
        found: Picture = frames[0].to_ndarray(format="rgb24")
        return found


class Streams:
    """By job and field; those that were used last are kept."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self._found: OrderedDict[tuple[str, str], Stream] = OrderedDict()

    def of(self, job: str, field: str) -> Stream:
        stream = self._found.setdefault((job, field), Stream())
        self._found.move_to_end((job, field))
        while len(self._found) > self._most:
            self._found.popitem(last=False)
        return stream

    def __len__(self) -> int:
        return len(self._found)


def _av() -> Any:
    """Raises NoDecoder."""
    try:
        import av
    except ImportError as error:
        raise NoDecoder(
            "This node cannot read H264: it has no PyAV.", hint="Install modelmill[edge] there, or send JPEG."
        ) from error
    return av
