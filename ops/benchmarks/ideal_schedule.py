"""The best that a pipeline of first-come-first-served stages can do when nothing but the stages takes time."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def makespan(times: Sequence[Sequence[float]], workers: Sequence[int]) -> float:
    """From the moment when all jobs are queued until the last one ends.

    times: of each job in the order of submission, seconds in each stage. workers: of each stage. At every stage the job
    that has waited longest is taken by the worker that is free first; who came at the same moment keeps the order.
    """
    ready = [0.0] * len(times)
    for stage, count in enumerate(workers):
        free_at = [0.0] * count
        for job in sorted(range(len(times)), key=lambda job: ready[job]):
            start = max(ready[job], heapq.heappop(free_at))
            ready[job] = start + times[job][stage]
            heapq.heappush(free_at, ready[job])
    return max(ready, default=0.0)
