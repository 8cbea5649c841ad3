"""Short videos on the disk: encoding, the ring that keeps the newest, and clips that are cut from it without encoding
again."""

from __future__ import annotations

import errno
import io
import logging
import shutil
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.edge.media.picture_sizes import Size
from app.edge.media.video_writer import MILLISECONDS, VideoFormat, VideoWriter
from app.video.model.drawn_video import Recording

MIN_FREE_BYTES = 256 << 20
"""What a recording leaves free on the disk for everything else."""
INDEX_BYTES, BYTES_PER_PACKET = 4096, 40
"""More than the index of an MP4 needs, which is reserved at its beginning."""
logger = logging.getLogger(__name__)


class SegmentWriter(VideoWriter):
    """Encodes pictures of one size into a video in memory."""

    def __init__(self, format: VideoFormat, size: Size, begins_s: float) -> None:
        """Arguments as of VideoWriter."""
        import av

        self._buffer = io.BytesIO()
        super().__init__(av.open(self._buffer, "w", format=format.container), format, size, begins_s)

    def close(self) -> bytes:
        """Returns the whole video. Raises av.FFmpegError."""
        self.finish()
        return self._buffer.getvalue()


@dataclass(frozen=True)
class Segment:
    """A video file of the ring."""

    path: Path
    begins_s: float
    """The time of its first picture, in seconds since 1970."""
    ends_s: float
    """The time of its last picture, in seconds since 1970."""
    size_bytes: int


class SegmentRing:
    """The newest segments of a recording, in a folder. Only one thread at a time may use it."""

    def __init__(self, folder: Path, limits: Recording) -> None:
        """Continues with the segments in the folder."""
        self._folder, self._limits = folder, limits
        for unfinished in folder.glob("*.new"):  # of a process that was killed while it wrote
            unfinished.unlink(missing_ok=True)
        files = [segment for path in folder.glob("*-*.*") if (segment := _read_segment(path))]
        self._segments = deque(sorted(files, key=lambda segment: segment.begins_s))
        self.size_bytes = sum(segment.size_bytes for segment in files)

    @property
    def begins_s(self) -> float | None:
        return min((one.begins_s for one in self._segments), default=None)

    @property
    def ends_s(self) -> float | None:
        return self._segments[-1].ends_s if self._segments else None

    def add(self, video: bytes, begins_s: float, ends_s: float, ending: str) -> None:
        """Stores a segment, and deletes the oldest ones above the limits.

        Args:
            video: its file.
            begins_s: the time of its first picture.
            ends_s: that of its last.
            ending: of the file's name.

        Raises:
            OSError: It cannot be stored; also if less than MIN_FREE_BYTES would stay free.
        """
        self._trim(ends_s, len(video))
        self._folder.mkdir(parents=True, exist_ok=True)
        if shutil.disk_usage(self._folder).free < MIN_FREE_BYTES + len(video):
            raise OSError(errno.ENOSPC, "the disk is full")
        path = self._folder / f"{round(begins_s * 1000)}-{round(ends_s * 1000)}.{ending}"
        fresh = path.with_suffix(".new")
        try:
            fresh.write_bytes(video)
            fresh.replace(path)
        except OSError:
            with suppress(OSError):
                fresh.unlink()
            raise
        self._segments.append(Segment(path, begins_s, ends_s, len(video)))
        self.size_bytes += len(video)

    def between(self, begins_s: float, ends_s: float) -> list[Segment]:
        """Returns the segments with pictures of this time, oldest first."""
        return [one for one in self._segments if one.begins_s <= ends_s and one.ends_s >= begins_s]

    def _trim(self, now_s: float, more_bytes: int) -> None:
        """Deletes what is too old, what is as far in the future, where the clock was set back, and the oldest above the
        most bytes."""
        most_s, most_bytes = self._limits.hours * 3600, self._limits.megabytes * 1_000_000
        for segment in [one for one in self._segments if abs(now_s - one.ends_s) > most_s]:
            self._segments.remove(segment)
            self._delete(segment)
        while self._segments and self.size_bytes + more_bytes > most_bytes:
            self._delete(self._segments.popleft())

    def _delete(self, segment: Segment) -> None:
        segment.path.unlink(missing_ok=True)
        self.size_bytes -= segment.size_bytes


def _read_segment(path: Path) -> Segment | None:
    begins, _, ends = path.stem.partition("-")
    if not (begins.isdecimal() and ends.isdecimal()) or path.suffix == ".new":
        return None
    return Segment(path, int(begins) / 1000, int(ends) / 1000, path.stat().st_size)


def clip_of(segments: Sequence[Segment], begins_s: float, ends_s: float, container: str) -> bytes:
    """Returns a clip with the pictures of this time; it begins up to KEYFRAME_EVERY_S earlier. Of pictures of several
    sizes it contains only those of the first, and nothing of a damaged segment. Empty if there is no picture of this
    time. Where the clock was set back, it goes on with the pictures after those that it has.

    Args:
        segments: oldest first.
        begins_s: seconds since 1970.
        ends_s: seconds since 1970.
        container: of the segments and of the clip.

    Raises:
        av.FFmpegError: They cannot be read or joined.
    """
    import av

    buffer = io.BytesIO()
    with ExitStack() as opened:
        streams, packets = list[Any](), list[tuple[int, Any]]()
        for segment in segments:
            try:
                source = opened.enter_context(av.open(segment.path))
            except av.FFmpegError as error:  # what was written when the power failed
                logger.warning("%s is left out of a clip: %s", segment.path.name, error)
                continue
            stream = source.streams.video[0]
            streams.append(stream)
            if (stream.width, stream.height) != (streams[0].width, streams[0].height):
                break
            timed = [
                (round((segment.begins_s + float(packet.pts * packet.time_base)) * 1000), packet)
                for packet in source.demux(stream)
                if packet.pts is not None
            ]
            if packets:
                timed = _select_after(timed, packets[-1][0])
            packets += _select_within(timed, round(begins_s * 1000), round(ends_s * 1000), is_first=not packets)
        if not packets:
            return b""
        index_bytes = INDEX_BYTES + BYTES_PER_PACKET * len(packets)
        options = {"moov_size": str(index_bytes)} if container == "mp4" else {}  # a player can start at once
        with av.open(buffer, "w", format=container, options=options) as clip:
            target = clip.add_stream_from_template(streams[0])
            target.time_base = MILLISECONDS
            for at, packet in packets:
                packet.pts = packet.dts = at - packets[0][0]
                packet.time_base = MILLISECONDS
                packet.stream = target
                clip.mux(packet)
    return buffer.getvalue()


def _select_within(
    packets: Sequence[tuple[int, Any]], begins: int, ends: int, *, is_first: bool
) -> list[tuple[int, Any]]:
    """Returns the packets of this time; the first ones of a clip from the keyframe before."""
    kept = [(at, packet) for at, packet in packets if at <= ends]
    if not is_first or not any(at >= begins for at, _ in kept):
        return [(at, packet) for at, packet in kept if at >= begins]
    start = max((at for at, packet in kept if packet.is_keyframe and at <= begins), default=kept[0][0])
    return [(at, packet) for at, packet in kept if at >= start]


def _select_after(packets: Sequence[tuple[int, Any]], last: int) -> list[tuple[int, Any]]:
    """Returns the packets after this time. If some are before it, since the clock was set back, it is from the next
    keyframe on."""
    if not packets or packets[0][0] > last:
        return list(packets)
    start = next((at for at, packet in packets if packet.is_keyframe and at > last), None)
    return [] if start is None else [(at, packet) for at, packet in packets if at >= start]
