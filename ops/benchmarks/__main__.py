"""`ops/bench NAME [OPTIONS]`: run one measurement, or all. Some take options: `ops/bench NAME --help`."""

from __future__ import annotations

import importlib
import os
import signal
import sys

NAMES = (
    "orchestration",
    "hops",
    "bie",
    "upload",
    "conversion",
    "viewers",
    "accounts",
    "homes",
    "slow_clients",
    "rest",
    "search",
    "micro_batches",
)
WITH_OPTIONS = ("peers", "capacity", "joint", "video", "quality", "goal_cost", "large_model", "training", "idle_nodes")


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by the deployments, which end what they have started
    benchmark, options = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[2:]
    if benchmark not in (*NAMES, *WITH_OPTIONS, "all") or (options and benchmark not in WITH_OPTIONS):
        print(f"usage: ops/bench {'|'.join((*NAMES, *WITH_OPTIONS, 'all'))}", file=sys.stderr)
        return 2
    if os.getloadavg()[0] > (os.cpu_count() or 1) / 2:
        print(f"The machine is busy (load {os.getloadavg()[0]:.1f}): what follows is noisy.", file=sys.stderr)
    if benchmark in WITH_OPTIONS:
        importlib.import_module(f"ops.benchmarks.{benchmark}").main(options)
        return 0
    for name in (*NAMES, *WITH_OPTIONS) if benchmark == "all" else (benchmark,):
        importlib.import_module(f"ops.benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
