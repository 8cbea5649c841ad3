"""What a source gives: no plan has a higher rate or a larger size. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.video.model.plan import RESOLUTIONS, VideoConf

ROUNDING_FPS = 0.5
"""A rate that exceeds the source's by at most this is the same: 24 frames/s of a source with 23.976."""


def sizes_within(height: float) -> list[str]:
    """The sizes up to the first that is as high as the source, smallest first.

    Args:
        height: of the source, pixels; 0: unknown, each size is possible.
    """
    names = list(RESOLUTIONS)
    covering = next((at for at, name in enumerate(names) if 0 < height <= RESOLUTIONS[name][1]), len(names) - 1)
    return names[: covering + 1]


def within_source(conf: VideoConf, source: Mapping[str, Any] | None) -> VideoConf:
    """The configuration, with the source's rate and size where it has more.

    Args:
        source: see contract.GeneratorInfo; what it does not say limits nothing.
    """
    fps, sizes = float((source or {}).get("fps") or 0.0), sizes_within(float((source or {}).get("height") or 0.0))
    return replace(
        conf,
        fps=fps if 0 < fps < conf.fps - ROUNDING_FPS else conf.fps,
        resolution=conf.resolution if conf.resolution in sizes else sizes[-1],
    )
