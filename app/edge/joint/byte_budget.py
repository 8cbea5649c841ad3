"""The bytes that an edge worker may upload per second and per month. Kept in the worker's folder, over restarts."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from app.kit.files import SHARED, write_whole

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ByteCounts:
    """What was uploaded, and what was not."""

    month: str = ""
    """The month in UTC, such as 2026-11."""
    month_bytes: int = 0
    """Bytes uploaded in this month."""
    saved_bytes: int = 0
    """Bytes that the budget held back, since the service began."""


class ByteBudget:
    """Grants uploads. For any thread.

    A second's worth of bytes may be sent at once. An upload larger than what is left of it is granted, and those that
    follow wait until it is made up for: over time, no more than the budget is sent, whatever the size of a picture.

    Attributes:
        counts: as they are now.
    """

    def __init__(self, per_s: float, per_month: float, path: Path | None) -> None:
        """
        Args:
            per_s: Bytes per second; 0 for no limit.
            per_month: Bytes per calendar month in UTC; 0 for no limit.
            path: The file that keeps the counts; None to keep them in memory only.
        """
        self.counts = _read(path) if path else ByteCounts()
        self._per_s, self._per_month, self._path = per_s, per_month, path
        self._saved = self.counts
        self._available = per_s
        self._at: float | None = None
        self._lock = threading.Lock()

    def take(self, size: int, *, at: float, now: datetime) -> str:
        """Request an upload.

        Args:
            size: Bytes of the upload.
            at: Seconds of a monotonic clock.
            now: The time, for the month.

        Returns:
            Empty if it may be sent; otherwise the reason why not.
        """
        month = f"{now:%Y-%m}"
        with self._lock:
            if month != self.counts.month:
                self.counts = replace(self.counts, month=month, month_bytes=0)
            elapsed_s = max(0.0, at - self._at) if self._at is not None else 0.0
            self._available, self._at = min(self._per_s, self._available + elapsed_s * self._per_s), at
            reason = ""
            if self._per_month and self.counts.month_bytes + size > self._per_month:
                reason = "over the byte budget of this month"
            elif self._per_s and self._available <= 0:
                reason = "over the byte budget of this second"
            if reason:
                self.counts = replace(self.counts, saved_bytes=self.counts.saved_bytes + size)
                return reason
            self._available -= size
            self.counts = replace(self.counts, month_bytes=self.counts.month_bytes + size)
        return ""

    def save(self) -> None:
        """Write the counts, if they have changed. A failure is logged."""
        with self._lock:
            counts = self.counts
        if self._path is None or counts == self._saved:
            return
        try:
            write_whole(self._path, json.dumps(vars(counts)), mode=SHARED)
        except OSError as error:
            logger.warning("The byte budget cannot be kept in %s: %s", self._path, error)
            return
        self._saved = counts


def _read(path: Path) -> ByteCounts:
    try:
        data = json.loads(path.read_bytes())
        return ByteCounts(str(data["month"]), max(0, int(data["month_bytes"])), max(0, int(data["saved_bytes"])))
    except FileNotFoundError:
        return ByteCounts()
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("The byte budget in %s cannot be read and starts at zero: %s", path, error)
        return ByteCounts()
