"""Pictures of folders, video files and cameras, one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SUFFIXES = (".jpg", ".jpeg", ".png")


def frames(source: str | Path, *, fps: float = 0.0) -> Iterator[Any]:
    """Yields pictures that JointInference takes.

    Args:
        source: a folder of JPEG and PNG files, one such file, a video, or a camera's URL. Videos and cameras need the
            extra `video`.
        fps: at most so many a second: frames of a camera in between are skipped, a file is read no faster; 0: all.

    Yields:
        Paths of a folder's files in the order of their names; arrays (H×W×3 RGB, uint8) of a video or camera.

    Raises:
        FileNotFoundError: there is no such file, or the folder has no picture.
        av.FFmpegError: it cannot be opened or read.
    """
    path = Path(source)
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        if not files:
            raise FileNotFoundError(f"{path} has no JPEG or PNG file.")
        yield from _paced(iter(files), fps)
    elif path.suffix.lower() in SUFFIXES:
        yield path
    else:
        yield from _decoded(str(source), fps)


def _paced(pictures: Iterator[Any], fps: float) -> Iterator[Any]:
    due = time.monotonic()
    for picture in pictures:
        if fps:
            time.sleep(max(0.0, due - time.monotonic()))
            due = max(due, time.monotonic() - 1 / fps) + 1 / fps
        yield picture


def _decoded(source: str, fps: float) -> Iterator[Any]:
    import av

    is_live = "://" in source
    with av.open(source) as container:
        decoded = container.decode(video=0)
        arrays = (frame.to_ndarray(format="rgb24") for frame in (_thinned(decoded, fps) if is_live else decoded))
        yield from arrays if is_live else _paced(arrays, fps)


def _thinned(decoded: Iterator[Any], fps: float) -> Iterator[Any]:
    """Of a live stream, the frames of this rate by its clock."""
    due = 0.0
    for frame in decoded:
        at = frame.time or 0.0
        if not fps or at >= due:
            due = at + 1 / fps if fps else 0.0
            yield frame
