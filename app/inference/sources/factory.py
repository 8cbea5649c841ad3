"""Determines the kind of a source from its text."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from app.inference.errors import SourceUnusable
from app.inference.sources.frames import Pace, Source, VideoSource
from app.inference.sources.pictures import SUFFIXES, Arrays, Pictures
from app.inference.sources.video import Video
from app.kit.network.addresses import without_credentials

STREAMS = ("rtsp", "rtspt", "rtspu", "rtsps", "rtmp", "rtmps", "srt", "udp", "http", "https")
"""Allowed schemes; others of FFmpeg open files and programs, and must not come from users' texts."""
CAMERAS = ("/dev/video", "/dev/v4l/")
"""Beginnings of the paths of cameras of this machine."""


def open_source(
    text: str,
    *,
    fps: float = 0,
    loop: bool = False,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Source:
    """Open a folder of pictures (sorted by name), a picture, an .npz, a video file, a camera of this machine
    (/dev/video0), a named pipe, or the URL of a stream.

    Args:
        fps: at most so many frames a second, by their own time and the clock; 0: all, as fast as they are read.
        loop: begin again at the end.
        clock: a monotonic clock, in seconds; tests have their own.
        sleep: waits, in seconds; tests have their own.

    Raises:
        SourceUnusable: It is not there or of no use; raised at once or with the first frame, and named.
    """
    source, name, live = open_video_source(text)
    return Source(source, name, Pace(fps, clock, sleep, live=live), loop=loop, is_live=live)


def open_video_source(text: str) -> tuple[VideoSource, str, bool]:
    """Open a source for a caller that chooses frames itself.

    Returns:
        The source; its name for readers, without a password; and whether it is live, such as a stream.

    Raises:
        SourceUnusable: As for open_source.
    """
    path = Path(text)
    if is_stream(text):
        address, name = text, hide_credentials(text)
    elif text and is_there(path):
        address, name = str(path.resolve()), path.name
    else:
        raise SourceUnusable(
            f"there is no source {text!r} on this node", hint="Give a path that this node has, or a URL."
        )
    live = is_live(text)
    return Video(address, name, live=True) if live else _open(path), name, live


def is_live(text: str) -> bool:
    """Returns whether it is live: a stream, or a camera (also one that is unplugged) or pipe of this machine."""
    return is_stream(text) or text.startswith(CAMERAS) or Path(text).is_char_device() or Path(text).is_fifo()


def is_stream(text: str) -> bool:
    """Returns whether it is a URL; otherwise it is a path."""
    return "://" in text


def is_there(path: Path) -> bool:
    """Returns whether the path exists; also False for an invalid name, and in a folder without permission."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def _open(path: Path) -> VideoSource:
    suffix = path.suffix.lower()
    if path.is_dir() or suffix in SUFFIXES:
        return Pictures(path)
    if suffix == ".npz":
        return Arrays(path)
    if not path.is_file():
        raise SourceUnusable(
            f"{path.name} is neither a file nor a folder",
            hint="Give a file, a folder, a camera as /dev/video0, a named pipe, or a stream.",
        )
    return Video(str(path.resolve()), path.name, live=False)


def hide_credentials(url: str) -> str:
    """Returns the URL without user and password.

    Raises:
        SourceUnusable: The scheme is not supported.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError as error:
        raise SourceUnusable("the source is no URL that can be read", hint="Check its host and port.") from error
    if parts.scheme.lower() not in STREAMS:
        raise SourceUnusable(f"sources of {parts.scheme}:// are not read", hint=f"Known are {', '.join(STREAMS)}.")
    return without_credentials(f"{parts.scheme}://{host}{port}{parts.path}")
