"""Three BIE workers, ten jobs of one second: never more than three at once, and none idle while one is queued."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from app.bootstrap.container import assemble
from app.kit.clock import from_text
from ops.benchmarks.load import BIE_S, submit
from tests.harness.deployment import Deployment

WORKERS, JOBS = 3, 10


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, Deployment(Path(folder)) as deployment:
        deployment.workers("ops.benchmarks.busy_actors", onnx=1, bie=WORKERS, nef=1, done=1)
        container = assemble(deployment.settings())
        ids = [submit(container) for _ in range(JOBS)]
        while container.redis.zcard(container.store.records.active_index):
            time.sleep(0.02)
        stages = [container.store.require(job_id).stages["bie"] for job_id in ids]
    spans = sorted((_seconds(s.started_at), _seconds(s.finished_at), _seconds(s.queued_at)) for s in stages)
    most = max(sum(1 for a, b, _ in spans if a <= moment < b) for moment, _, _ in spans)
    idle = sum(_idle_while_queued(spans, moment) for moment, _, _ in spans)
    ideal = -(-JOBS // WORKERS) * BIE_S
    makespan = max(b for _, b, _ in spans) - min(q for _, _, q in spans)
    print(f"\n{JOBS} jobs of {BIE_S:g} s in BIE on {WORKERS} workers")
    print(f"most at once {most}; makespan {makespan:.2f} s, ideal {ideal:.2f} s, ratio {makespan / ideal:.3f}")
    print(f"idle worker time while a job was queued: {idle:.3f} s in all")


def _idle_while_queued(spans: list[tuple[float, float, float]], start: float) -> float:
    """How long the job that began at `start` had been queued while fewer than WORKERS were at work."""
    queued = next(q for a, _, q in spans if a == start)
    ends = sorted(b for a, b, _ in spans if a < start and b > queued)
    busy_until = ends[-WORKERS] if len(ends) >= WORKERS else queued
    return max(0.0, start - max(queued, busy_until))


def _seconds(text: str | None) -> float:
    assert text is not None
    return from_text(text).timestamp()
