"""`ops/bench NAME`: run one measurement, or all."""

from __future__ import annotations

import importlib
import sys

NAMES = ("orchestration", "bie", "upload", "conversion", "viewers")


def main() -> int:
    wanted = sys.argv[1] if len(sys.argv) == 2 else ""
    if wanted not in (*NAMES, "all"):
        print(f"usage: ops/bench {'|'.join((*NAMES, 'all'))}", file=sys.stderr)
        return 2
    for name in NAMES if wanted == "all" else (wanted,):
        importlib.import_module(f"ops.benchmarks.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
