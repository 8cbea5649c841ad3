"""The rounds of every system as one table, and the ratios that are aimed at."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ops.benchmarks.peers.measurement import Round
from ops.benchmarks.peers.systems import MODELMILL, RAW
from tests.harness.deployment import percentile

AIM_LATENCY, AIM_RATE = 1.5, 0.85
MIB = 1024 * 1024
HEAD = (
    f"{'':16} {'p50 ms':>8} {'p95 ms':>8} {'jobs/s':>8} {'CPU ms':>8} {'queued':>8} {'PSS MiB':>8} {'idle CPU %':>10} "
    f"{'processes':>9} {'jobs':>9}"
)


@dataclass(frozen=True)
class Row:
    """All rounds of a system: percentiles over all jobs, medians over the rounds. CPU ms: for a job that comes alone,
    and for one of many queued."""

    name: str
    p50_ms: float
    p95_ms: float
    jobs_per_s: float
    cpu_ms_alone: float
    cpu_ms_queued: float
    memory_mib: float
    cpu_percent: float
    processes: int
    jobs: str
    """One by one, and at once in each round."""

    def __str__(self) -> str:
        speed = f"{self.name:16} {self.p50_ms:8.1f} {self.p95_ms:8.1f} {self.jobs_per_s:8.1f}"
        speed += f" {self.cpu_ms_alone:8.2f} {self.cpu_ms_queued:8.2f}"
        return f"{speed} {self.memory_mib:8.0f} {self.cpu_percent:10.1f} {self.processes:9} {self.jobs:>9}"


def row(name: str, rounds: Sequence[Round], at_once: int) -> Row:
    latencies = [value for round_ in rounds for value in round_.latencies_ms]
    return Row(
        name,
        p50_ms=percentile(latencies, 0.5),
        p95_ms=percentile(latencies, 0.95),
        jobs_per_s=statistics.median(round_.jobs_per_s for round_ in rounds),
        cpu_ms_alone=statistics.median(round_.cpu_ms_alone for round_ in rounds),
        cpu_ms_queued=statistics.median(round_.cpu_ms_queued for round_ in rounds),
        memory_mib=statistics.median(round_.memory_bytes for round_ in rounds) / MIB,
        cpu_percent=statistics.mean(round_.cpu_share for round_ in rounds) * 100,
        processes=max(round_.processes for round_ in rounds),
        jobs=f"{len(latencies)} / {at_once}",
    )


def lines(rows: Sequence[Row], failures: Mapping[str, str]) -> list[str]:
    """The table, then what failed and why, then the ratios."""
    failed = [f"{name:16} failed: {reason}" for name, reason in failures.items()]
    return [
        HEAD,
        *(str(system_row) for system_row in rows),
        *failed,
        *_against_the_limit(rows),
        *_against_the_peers(rows),
    ]


def _against_the_limit(rows: Sequence[Row]) -> list[str]:
    named = {system_row.name: system_row for system_row in rows}
    if MODELMILL not in named or RAW not in named:
        return []
    ours, limit = named[MODELMILL], named[RAW]
    latency, rate = ours.p50_ms / limit.p50_ms, ours.jobs_per_s / limit.jobs_per_s
    return [
        f"against the raw limit, the same hops on bare Redis lists: p50 {latency:.2f} times its, "
        f"aim at most {AIM_LATENCY:g}; jobs/s {rate:.2f} times its, aim at least {AIM_RATE:g}"
    ]


def _against_the_peers(rows: Sequence[Row]) -> list[str]:
    named = {system_row.name: system_row for system_row in rows}
    peers = [system_row for system_row in rows if system_row.name != MODELMILL and not system_row.name.startswith(RAW)]
    if MODELMILL not in named or not peers:
        return []
    ours = named[MODELMILL]
    fastest = min(peers, key=lambda peer: peer.p50_ms)
    busiest = max(peers, key=lambda peer: peer.jobs_per_s)
    return [
        f"against the best peer: p50 {ours.p50_ms / fastest.p50_ms:.2f} times {fastest.name}'s, aim below 1; "
        f"jobs/s {ours.jobs_per_s / busiest.jobs_per_s:.2f} times {busiest.name}'s, aim above 1"
    ]
