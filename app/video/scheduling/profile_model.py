"""The profile of stages: seconds of computation, quality, bytes of a frame. Without a measurement, a guess from the
nearest one. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import fmean, median

from app.video.model.plan import RESOLUTIONS, Encoder
from app.video.scheduling.contract import Measured

PIXELS: Mapping[str, int] = {name: width * height for name, (width, height) in RESOLUTIONS.items()}
GUESSED_S = 0.05
"""Seconds of a stage that was never measured, with its big model at 480p."""
OF_BIG = (1.0, 0.5, 0.25)
"""By model_id: the share of the big model's time."""
QUALITY: Mapping[str, float] = {"240p": 0.93, "360p": 0.96, "480p": 0.98, "720p": 0.99, "1080p": 1.0}
QUALITY_OF_MODEL = (1.0, 0.97, 0.93)
JPEG_BYTES: Mapping[str, float] = {"240p": 6e3, "360p": 12.4e3, "480p": 18.9e3, "720p": 42.8e3, "1080p": 90e3}
H264_SHARE: Mapping[str, float] = {"240p": 0.23, "360p": 0.24, "480p": 0.26, "720p": 0.31, "1080p": 0.35}
"""Of the bytes of JPEG."""
H264_QUALITY = 0.995
ENCODE_S: Mapping[Encoder, Mapping[str, float]] = {
    Encoder.JPEG: {"240p": 0.0002, "360p": 0.0003, "480p": 0.0005, "720p": 0.0015, "1080p": 0.0035},
    Encoder.H264: {"240p": 0.001, "360p": 0.0017, "480p": 0.0031, "720p": 0.0093, "1080p": 0.02},
}
HELD = ((0, 1.0), (1, 0.989), (2, 0.984), (4, 0.961), (9, 0.921), (29, 0.8), (119, 0.5))
"""(frames in a row that get the boxes of the one before, share of the quality that is left)."""
TRACKED_LOSS = 0.5
"""The share of that loss which remains when a tracker moves the boxes."""


class ProfileModel:
    """The profile of one call of a policy; caches. Methods return a figure and whether it was measured, not guessed."""

    def __init__(self, profile: Sequence[Measured]) -> None:
        self._times: dict[str, dict[tuple[str, int], dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
        self._qualities: dict[tuple[str, int], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        bytes_: dict[str, list[float]] = defaultdict(list)
        for row in profile:
            resolution = row["resolution"]
            if resolution not in PIXELS or row["delay_s"] <= 0:
                continue
            self._times[row["stage"]][row["node"], row["model_id"]][resolution] = row["delay_s"]
            if row["quality"] > 0:
                self._qualities[row["stage"], row["model_id"]][resolution].append(row["quality"])
            if row["bytes"] > 0:
                bytes_[resolution].append(row["bytes"])
        self._bytes = {resolution: fmean(sizes) for resolution, sizes in bytes_.items()}
        self._times_cache: dict[tuple[str, str, int, str], tuple[float, bool]] = {}
        self._quality_cache: dict[tuple[str, int, str], tuple[float, bool]] = {}

    def service_s(self, node: str, stage: str, model_id: int, resolution: str) -> tuple[float, bool]:
        """How long a stage computes on a frame.

        Args:
            model_id: of the stage, 0 the smallest.
            resolution: as video_conf names it.

        Returns:
            Seconds, and whether they were measured.
        """
        key = (node, stage, model_id, resolution)
        if key not in self._times_cache:
            self._times_cache[key] = self._estimate_service_s(*key)
        return self._times_cache[key]

    def _estimate_service_s(self, node: str, stage: str, model_id: int, resolution: str) -> tuple[float, bool]:
        """In this order: as measured; here at another size; with this model elsewhere; with another model."""
        times = self._times.get(stage)
        if not times:
            return GUESSED_S * _of_big(model_id) * _by_size(resolution, "480p"), False
        here = times.get((node, model_id))
        if here:
            return (here[resolution], True) if resolution in here else (_estimate_at_size(here, resolution), False)
        elsewhere = [
            _estimate_at_size(times_there, resolution) for (_, model), times_there in times.items() if model == model_id
        ]
        if elsewhere:
            return median(elsewhere) * self._estimate_slowness(node, times), False
        own = [key for key in times if key[0] == node] or list(times)
        nearest = min(own, key=lambda key: abs(key[1] - model_id))
        return _estimate_at_size(times[nearest], resolution) * _of_big(model_id) / _of_big(nearest[1]), False

    @staticmethod
    def _estimate_slowness(node: str, times: Mapping[tuple[str, int], Mapping[str, float]]) -> float:
        """This node's times through those of others, by what was measured on both."""
        ratios = [
            here[resolution] / there[resolution]
            for (name, model), here in times.items()
            if name == node
            for (other, same), there in times.items()
            if other != node and same == model
            for resolution in here
            if resolution in there
        ]
        return median(ratios) if ratios else 1.0

    def quality(self, stage: str, model_id: int, resolution: str) -> tuple[float, bool]:
        """0..1 against the reference configuration, when each frame is processed."""
        key = (stage, model_id, resolution)
        if key not in self._quality_cache:
            self._quality_cache[key] = self._estimate_quality(*key)
        return self._quality_cache[key]

    def _estimate_quality(self, stage: str, model_id: int, resolution: str) -> tuple[float, bool]:
        qualities = self._qualities.get((stage, model_id), {})
        if resolution in qualities:
            return fmean(qualities[resolution]), True
        guess = QUALITY[resolution] * QUALITY_OF_MODEL[min(model_id, len(QUALITY_OF_MODEL) - 1)]
        if not qualities:
            return guess, False
        nearest = _find_nearest(qualities, resolution)
        return min(1.0, fmean(qualities[nearest]) * QUALITY[resolution] / QUALITY[nearest]), False

    def frame_bytes(self, resolution: str, encoder: Encoder) -> tuple[float, bool]:
        """Bytes of an encoded frame."""
        jpeg, is_measured = self._bytes.get(resolution, 0.0), True
        if not jpeg:
            nearest = _find_nearest(self._bytes, resolution) if self._bytes else resolution
            ratio = self._bytes[nearest] / JPEG_BYTES[nearest] if self._bytes else 1.0
            jpeg, is_measured = JPEG_BYTES[resolution] * ratio, False
        return (jpeg * H264_SHARE[resolution], False) if encoder is Encoder.H264 else (jpeg, is_measured)


@lru_cache(maxsize=256)
def compute_kept_quality(nskip: int, ntracking: int) -> float:
    """The share of the quality, 0..1, that is left when between two processed frames `nskip` are omitted and
    `ntracking` are tracked."""
    idle = nskip + ntracking
    if not idle:
        return 1.0
    loss = (1 - _hold_frames(idle)) * (nskip + TRACKED_LOSS * ntracking) / idle
    return 1 - loss


def _hold_frames(frames: int) -> float:
    for (fewer, better), (more, worse) in pairwise(HELD):
        if frames <= more:
            return better + (worse - better) * (frames - fewer) / (more - fewer)
    return HELD[-1][1]


def _of_big(model_id: int) -> float:
    return OF_BIG[min(model_id, len(OF_BIG) - 1)]


def _by_size(resolution: str, of: str) -> float:
    return PIXELS[resolution] / PIXELS[of]


def _find_nearest(resolutions: Mapping[str, object], resolution: str) -> str:
    """By the ratio of their pixels; of two that are equally near the greater one."""
    pixels = PIXELS[resolution]
    return min(resolutions, key=lambda name: (max(PIXELS[name] / pixels, pixels / PIXELS[name]), -PIXELS[name]))


def _estimate_at_size(measured: Mapping[str, float], resolution: str) -> float:
    """Seconds at a size: between two measured sizes interpolated by pixels, else in proportion to the nearest.

    Args:
        measured: resolution → seconds; not empty.
    """
    if resolution in measured:
        return measured[resolution]
    pixels = PIXELS[resolution]
    below = max((name for name in measured if PIXELS[name] < pixels), key=PIXELS.__getitem__, default=None)
    above = min((name for name in measured if PIXELS[name] > pixels), key=PIXELS.__getitem__, default=None)
    if below and above:
        share = (pixels - PIXELS[below]) / (PIXELS[above] - PIXELS[below])
        return measured[below] + (measured[above] - measured[below]) * share
    nearest = below or above
    assert nearest is not None
    return measured[nearest] * _by_size(resolution, nearest)
