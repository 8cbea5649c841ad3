"""What share of this machine's CPU processes use."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress

import psutil

LEAST_S = 1.0
"""A shorter time says nothing: the kernel counts in hundredths of a second."""


class CpuUse:
    """Measures since the last measurement.

    Args:
        is_whole: whether what the first measured processes have used so far counts, since this object is as old as
            they; otherwise the first measurement has no result.
    """

    def __init__(self, *, is_whole: bool) -> None:
        self._seconds: dict[int, float] | None = {} if is_whole else None
        self._measured_at = time.monotonic() if is_whole else -LEAST_S
        self._shares: dict[str, float] = {}

    def shares(self, groups: Mapping[int, str]) -> dict[str, float]:
        """Returns the share of the machine's CPU, 0..1, of each group of processes, as it was measured at most LEAST_S
        ago.

        Args:
            groups: by pid. A process may end at any time.
        """
        passed_s = time.monotonic() - self._measured_at
        if passed_s >= LEAST_S:
            former, self._seconds = self._seconds, _read_seconds(groups)
            self._measured_at, self._shares = time.monotonic(), {}
            if former is not None:
                for pid, seconds in self._seconds.items():
                    used_s = max(0.0, seconds - former.get(pid, 0.0))
                    share = self._shares.get(groups[pid], 0.0) + used_s / passed_s / (psutil.cpu_count() or 1)
                    self._shares[groups[pid]] = min(1.0, share)
        return self._shares


def _read_seconds(pids: Mapping[int, str]) -> dict[int, float]:
    seconds = dict[int, float]()
    for pid in pids:
        with suppress(psutil.Error):
            seconds[pid] = sum(psutil.Process(pid).cpu_times()[:2])
    return seconds
