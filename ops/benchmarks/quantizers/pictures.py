"""Real pictures in two parts without a common scene: for calibration and for evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from PIL import Image

from app.inference.sources.factory import open_source

EVERY = 6
"""One in this number of a clip's frames is used."""
CALIBRATE_CLIPS = ("classroom-270p.mp4", "person-bicycle-car-270p.mp4")
JUDGE_CLIPS = ("faces-walking-270p.mp4", "headpose-female-270p.mp4")


def write_parts(shared: Path, folder: Path, count: int) -> tuple[Path, Path]:
    """Writes two folders of at most `count` pictures: photographs in turn, and frames of different clips.

    Args:
        shared: the folder with `images` and `video`.
    """
    photographs = sorted(shared.glob("images/*.jpg"))
    parts = []
    for name, first, clips in (("calibrate", 0, CALIBRATE_CLIPS), ("judge", 1, JUDGE_CLIPS)):
        part = folder / name
        part.mkdir(parents=True)
        own = [Image.open(path).convert("RGB") for path in photographs[first::2]]
        frames = [frame for clip in clips for frame in _frames(shared / "video" / clip)]
        left = max(count - len(own), 0)
        chosen = frames[:: max(len(frames) // left, 1)][:left] if left else []
        for number, image in enumerate([*own[:count], *chosen]):
            image.save(part / f"{number:03}.png")
        parts.append(part)
    return parts[0], parts[1]


def _frames(clip: Path) -> Iterator[Image.Image]:
    source = open_source(str(clip))
    try:
        for number, frame in enumerate(source):
            if number % EVERY == 0:
                yield Image.fromarray(frame.picture)
    finally:
        source.close()
