"""Counts the work of an edge worker. Saved in the worker's folder, so that counting continues after a restart."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from app.edge.joint.outcome import SampleOutcome
from app.joint_inference.model.tally import Breaker, Source, Tally
from app.kit.files import SHARED, write_whole
from app.kit.text.json_values import JsonObject

RECENT = 512
FPS_OVER_S = 10.0
COUNTED = ("inferences", "hard", "uploaded", "failed", "kept", "fallback", "bytes_uploaded")
logger = logging.getLogger(__name__)


class TallyCounter:
    """The tally of one worker. For any thread.

    In all methods `now` is the time as ISO text, and `at` are seconds of a monotonic clock.
    """

    def __init__(self, path: Path | None, *, now: str) -> None:
        self.path = path
        self._lock = threading.Lock()
        previous = (_read(path) if path else None) or Tally(start_time=now, update_time=now)
        self._counts = {name: int(getattr(previous, name)) for name in COUNTED}
        self._start_time, self._update_time = previous.start_time, previous.update_time
        self._edge_ms: deque[float] = deque(maxlen=RECENT)
        self._cloud_ms: deque[float] = deque(maxlen=RECENT)
        self._at: deque[float] = deque(maxlen=RECENT)
        self._saved: Tally | None = None

    def count_inference(self, *, is_hard: bool, edge_ms: float | None, at: float, now: str) -> None:
        """Count one sample.

        Args:
            edge_ms: None when the small model has not run for it.
        """
        with self._lock:
            self._add(now, inferences=1, hard=int(is_hard))
            self._at.append(at)
            if edge_ms is not None:
                self._edge_ms.append(edge_ms)

    def count_end(self, outcome: SampleOutcome, *, was_sent: bool, now: str) -> None:
        """Count the outcome of one hard sample."""
        with self._lock:
            if outcome.source is Source.CLOUD:
                self._add(now, uploaded=1, bytes_uploaded=outcome.bytes_up)
                self._cloud_ms.append(outcome.cloud_ms or 0.0)
                return
            is_fallback = int(outcome.source is Source.EDGE_FALLBACK)
            self._add(
                now, failed=int(was_sent), kept=int(not was_sent), fallback=is_fallback, bytes_uploaded=outcome.bytes_up
            )

    def snapshot(self, *, breaker: Breaker, last_error: str, at: float) -> Tally:
        with self._lock:
            edge, cloud = _compute_percentiles(self._edge_ms), _compute_percentiles(self._cloud_ms)
            return replace(
                self._build_tally(),
                edge_ms_p50=edge[0],
                edge_ms_p95=edge[1],
                cloud_ms_p50=cloud[0],
                cloud_ms_p95=cloud[1],
                fps=_measure_rate(self._at, at),
                breaker=breaker,
                last_error=last_error,
            )

    def save(self) -> None:
        """Write the file, if the tally has changed. A failure is logged."""
        with self._lock:
            tally = self._build_tally()
        if self.path is None or tally == self._saved:
            return
        saved = {name: getattr(tally, name) for name in (*COUNTED, "start_time", "update_time")}
        try:
            write_whole(self.path, json.dumps(saved), mode=SHARED)
        except OSError as error:
            logger.warning("The tally cannot be kept in %s: %s", self.path, error)
            return
        self._saved = tally

    def _add(self, now: str, **more: int) -> None:
        self._update_time = now
        for name, count in more.items():
            self._counts[name] += count

    def _build_tally(self) -> Tally:
        counts: JsonObject = self._counts
        return Tally(**counts, start_time=self._start_time, update_time=self._update_time)


def _read(path: Path) -> Tally | None:
    """None when there is no file yet, or it is damaged."""
    try:
        data = json.loads(path.read_bytes())
        counts: JsonObject = {name: int(data[name]) for name in COUNTED}
        if min(counts.values()) < 0:
            raise ValueError("a count below 0")
        return Tally(**counts, start_time=str(data["start_time"]), update_time=str(data["update_time"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("The tally in %s cannot be read, counting begins anew: %s", path, error)
        return None


def _compute_percentiles(values: Sequence[float]) -> tuple[float | None, float | None]:
    if not values:
        return None, None
    p50, p95 = np.percentile(np.fromiter(values, dtype=np.float64), (50, 95))
    return round(float(p50), 3), round(float(p95), 3)


def _measure_rate(at: Sequence[float], now: float) -> float | None:
    """Samples per second over the last FPS_OVER_S; None when there were fewer than two."""
    recent = [moment for moment in at if now - moment <= FPS_OVER_S]
    if len(recent) < 2 or recent[-1] <= recent[0]:
        return None
    return round((len(recent) - 1) / (recent[-1] - recent[0]), 2)
