"""Where the time of one job goes on an idle system: every hop, every round trip to Redis, every wake-up.

Stages that do nothing, one job at a time with a pause between. Timestamps are taken on the clients' side only
(tracing.py), for MONITOR would slow the server. MODELMILL_BENCH_JOBS sets the number of jobs, 100 by default.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import redis

from app.bootstrap.container import Container, assemble
from ops.benchmarks.load import Watcher, submit
from ops.benchmarks.tracing import BACKGROUND, MARK, SEND, Event, Trace, read_events
from tests.harness.deployment import Deployment, percentile

JOBS, WARM_UP, PAUSE_S = int(os.environ.get("MODELMILL_BENCH_JOBS", "100")), 10, 0.1
TRAIL_NS = 20_000_000
"""What follows a job's end within this time (acks, going back to sleep) is counted as the job's."""
CLIENT = "client"

Window = tuple[int, int]
Row = tuple[str, str, str, int]
"""role, kind, label, and which one of this kind within a job."""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trace = Trace()
        trace.install()
        with Deployment(folder) as deployment:
            deployment.env["MODELMILL_BENCH_TRACE"] = str(folder)
            deployment.workers("ops.benchmarks.traced_actors", onnx=1, bie=1, nef=1, done=1)
            deployment.until_quiet()
            container = assemble(deployment.settings())
            windows, wakes, commands = _run(container, deployment, trace, folder)
        events = read_events(folder)
    jobs = [_within(events, start, end + TRAIL_NS) for start, end in windows]
    _print_hops(jobs, windows)
    _print_timeline(jobs, windows)
    _print_round_trips(jobs)
    _print_counts(
        "commands inside Redis per job, those of scripts counted with their scripts' (INFO commandstats)", commands
    )
    _print_counts("wake-ups per job (voluntary context switches, idle ones subtracted)", wakes)


def _run(
    container: Container, deployment: Deployment, trace: Trace, folder: Path
) -> tuple[list[Window], Counter[str], Counter[str]]:
    watcher = Watcher(container)
    for _ in range(WARM_UP):
        _job(container, watcher)
    pids = {path.stem.rpartition("-")[0]: int(path.stem.rpartition("-")[2]) for path in folder.glob("*.trace")}
    pids["redis"] = deployment.valkey.process.pid
    server = deployment.valkey.client
    before = _switches(pids), _commands(server)
    time.sleep(JOBS * PAUSE_S)
    idle = _switches(pids) - before[0], _commands(server) - before[1]
    trace.open(folder, CLIENT)
    before = _switches(pids), _commands(server)
    windows = []
    for _ in range(JOBS):
        time.sleep(PAUSE_S)
        windows.append(_job(container, watcher))
    after = _switches(pids), _commands(server)
    watcher.check()
    # Counter's minus drops what is not positive.
    return windows, after[0] - before[0] - idle[0], after[1] - before[1] - idle[1]


def _job(container: Container, watcher: Watcher) -> Window:
    started = time.monotonic_ns()
    watcher.wait(submit(container))
    return started, time.monotonic_ns()


def _within(events: list[Event], start: int, end: int) -> list[Event]:
    first, last = (bisect_left(events, moment, key=lambda event: event.at_ns) for moment in (start, end))
    return [event for event in events[first:last] if event.role != BACKGROUND]


def _print_hops(jobs: list[list[Event]], windows: list[Window]) -> None:
    """From one actor's beginning to the next one's."""
    times_by_hop: dict[str, list[float]] = defaultdict(list)
    for events, (start, end) in zip(jobs, windows, strict=True):
        at, before = start, "submitted"
        for event in events:
            if event.kind == MARK and event.label == "actor begins":
                times_by_hop[f"{before} → {event.role} begins"].append((event.at_ns - at) / 1000)
                at, before = event.at_ns, f"{event.role} begins"
        times_by_hop[f"{before} → its end is heard of"].append((end - at) / 1000)
    total = [(end - start) / 1000 for start, end in windows]
    print(f"\n{len(jobs)} jobs of three no-op stages, one by one on an idle system; µs")
    print(f"{'hop':38} {'p50':>8} {'p95':>8}")
    for name, values in [*times_by_hop.items(), ("submitted → its end is heard of", total)]:
        print(f"{name:38} {percentile(values, 0.5):8.0f} {percentile(values, 0.95):8.0f}")


def _print_timeline(jobs: list[list[Event]], windows: list[Window]) -> None:
    """What happens in most jobs, in order. A blocking command is seen by its reply only: it was sent before the job."""
    at: dict[Row, list[float]] = defaultdict(list)
    step: dict[Row, list[float]] = defaultdict(list)
    for events, (start, _) in zip(jobs, windows, strict=True):
        seen: Counter[tuple[str, str, str]] = Counter()
        last: dict[str, int] = {CLIENT: start}
        for event in events:
            seen[event[1:4]] += 1
            row = (*event[1:4], seen[event[1:4]])
            at[row].append((event.at_ns - start) / 1000)
            step[row].append((event.at_ns - last.get(event.role, event.at_ns)) / 1000)
            last[event.role] = event.at_ns
    usual = [row for row, values in at.items() if len(values) > len(jobs) / 2]
    print(f"\n{'p50 at µs':>9} {'step µs':>8}  (step: since the event before in the same process)")
    for row in sorted(usual, key=lambda row: statistics.median(at[row])):
        role, kind, label, _ = row
        print(f"{statistics.median(at[row]):9.0f} {statistics.median(step[row]):8.0f}  {role:7} {kind:6} {label}")


def _print_round_trips(jobs: list[list[Event]]) -> None:
    sent = [event for events in jobs for event in events if event.kind == SEND]
    _print_counts("round trips to Redis per job, by process", Counter(event.role for event in sent), len(jobs))
    _print_counts("the same by command", Counter(f"{event.role:7} {event.label}" for event in sent), len(jobs))


def _print_counts(title: str, counts: Counter[str], jobs: int = JOBS) -> None:
    print(f"\n{title}: {sum(counts.values()) / jobs:.1f}")
    for name, count in counts.most_common():
        if count >= jobs / 20:
            print(f"{count / jobs:9.2f}  {name}")


def _switches(pids: dict[str, int]) -> Counter[str]:
    return Counter({role: sum(_voluntary(pid)) for role, pid in pids.items()})


def _voluntary(pid: int) -> Iterable[int]:
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                yield int(line.split()[1])


def _commands(server: redis.Redis) -> Counter[str]:
    stats: Any = server.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): command["calls"] for name, command in stats.items()})
