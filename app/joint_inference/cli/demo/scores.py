"""The evaluation of joint inference: accuracy of each variant, share of uploads, time. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

AIM = 0.8
"""Of what the cloud is better than the edge, joint inference is to keep so much."""


@dataclass(frozen=True)
class StreamAnswer:
    """One picture through the edge worker. Answers are classes."""

    truth: int
    edge: int
    """The small model's."""
    cloud: int
    """The big model's."""
    final: int
    """What was given."""
    was_uploaded: bool
    was_fallback: bool
    ms: float
    edge_ms: float
    cloud_ms: float | None


@dataclass(frozen=True)
class ScoreRow:
    """One way to answer, and what it is worth."""

    way: str
    accuracy: float
    """Share, 0..1."""
    upload: float
    """Share, 0..1."""
    p50_ms: float | None = None
    """Milliseconds; None if nothing was timed. Those of the cloud alone are of the pictures that were uploaded."""
    p95_ms: float | None = None
    """Milliseconds, of the same pictures as `p50_ms`."""
    fallbacks: int = 0


@dataclass(frozen=True)
class Scores:
    edge: ScoreRow
    cloud: ScoreRow
    joint: ScoreRow
    random: ScoreRow

    @property
    def rows(self) -> tuple[ScoreRow, ...]:
        return self.edge, self.cloud, self.joint, self.random

    @property
    def is_worth_it(self) -> bool:
        """Most of the cloud's gain at no more than half of its traffic, and more than chance would give for it."""
        gained = self.edge.accuracy + AIM * (self.cloud.accuracy - self.edge.accuracy)
        is_better = self.joint.accuracy > self.random.accuracy
        return self.joint.accuracy >= gained and self.joint.upload <= 0.5 and is_better


def scores_of(answers: Sequence[StreamAnswer]) -> Scores:
    """random: what uploading the same share would give if the pictures were drawn by lot, on average."""
    edge, cloud = (_compute_share([getattr(a, way) == a.truth for a in answers]) for way in ("edge", "cloud"))
    upload = _compute_share([a.was_uploaded for a in answers])
    joint = _compute_share([a.final == a.truth for a in answers])
    edge_ms, joint_ms = [a.edge_ms for a in answers], [a.ms for a in answers]
    cloud_ms = [a.cloud_ms for a in answers if a.cloud_ms is not None]
    fallbacks = sum(a.was_fallback for a in answers)
    return Scores(
        ScoreRow("edge only", edge, 0.0, *_compute_percentiles(edge_ms)),
        ScoreRow("cloud only", cloud, 1.0, *_compute_percentiles(cloud_ms)),
        ScoreRow("joint", joint, upload, *_compute_percentiles(joint_ms), fallbacks),
        ScoreRow("random, as many", edge + upload * (cloud - edge), upload),
    )


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(share * (len(ordered) - 1)))]


def _compute_percentiles(values: Sequence[float]) -> tuple[float | None, float | None]:
    return (percentile(values, 0.5), percentile(values, 0.95)) if values else (None, None)


def _compute_share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags)
