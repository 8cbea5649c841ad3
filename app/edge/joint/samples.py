"""Hard samples to look at: a few of the newest, small, until they are reported."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from PIL import Image

from app.edge.joint.outcome import Outcome, Pending
from app.inference.picture_codec import encode
from app.inference.prediction import Picture, Prediction
from app.joint_inference.model.tally import Sample

KEPT = 20
LONGEST_SIDE = 640
MAX_PICTURE_BYTES = 256_000
EVERY_S = 1.0
STALE_S = 5.0
"""Who looks at a stream wants to see it, and not what was before: of what has waited longer one at most is shown."""
QUALITIES = (80, 60, 40, 20)
Shown = tuple[Sample, bytes, str]
"""A sample, its picture, and that one's content type."""


class Samples:
    """A burst is taken until KEPT are there; then one a second, the oldest going. They leave in their order. For any
    thread. clock: for tests."""

    def __init__(self, labels: tuple[str, ...] = (), *, clock: Callable[[], float] = time.monotonic) -> None:
        self.labels = labels
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: deque[tuple[float, Shown]] = deque(maxlen=KEPT)
        self._taken_at = -EVERY_S

    def add(self, pending: Pending, outcome: Outcome, *, at: str) -> None:
        now = self._clock()
        with self._lock:
            if len(self._waiting) == KEPT and now - self._taken_at < EVERY_S:
                return
            self._taken_at = now
        shown = small_picture(pending.picture)
        if shown is None:
            return
        sample = sample_of(pending, outcome, at=at, labels=self.labels)
        with self._lock:
            self._waiting.append((now, (sample, *shown)))

    def take(self) -> Shown | None:
        """The next that is not stale, or the last there is."""
        with self._lock:
            while len(self._waiting) > 1 and self._clock() - self._waiting[0][0] > STALE_S:
                self._waiting.popleft()
            return self._waiting.popleft()[1] if self._waiting else None

    def put_back(self, shown: Shown) -> None:
        with self._lock:
            if len(self._waiting) < KEPT:
                self._waiting.appendleft((self._clock(), shown))


def sample_of(pending: Pending, outcome: Outcome, *, at: str, labels: tuple[str, ...] = ()) -> Sample:
    """width, height and boxes are of the source picture, however small the shown one is."""
    height, width = pending.picture.shape[:2]
    return Sample(
        id=pending.id,
        at=at,
        width=int(width),
        height=int(height),
        why=outcome.verdict.why,
        score=round(outcome.verdict.score, 5),
        source=outcome.source,
        edge=replace(outcome.edge or Prediction(), candidates=()),
        cloud=outcome.cloud,
        edge_ms=round(outcome.edge_ms, 3),
        cloud_ms=outcome.cloud_ms,
        bytes_up=outcome.bytes_up,
        labels=labels,
        origin=pending.origin,
        extra={"error": outcome.error} if outcome.error else {},
    )


def small_picture(picture: Picture) -> tuple[bytes, str] | None:
    """None: it cannot be made small enough, which noise of this size can not do."""
    if max(picture.shape[:2]) > LONGEST_SIDE:
        image = Image.fromarray(picture)
        image.thumbnail((LONGEST_SIDE, LONGEST_SIDE), reducing_gap=2.0)
        picture = np.asarray(image, dtype=np.uint8)
    for quality in QUALITIES:
        data, content_type = encode(picture, quality)
        if len(data) <= MAX_PICTURE_BYTES:
            return data, content_type
    return None
