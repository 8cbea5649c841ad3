"""`modelmill node` with what the product carries, but workers of the tests. Takes its arguments."""

from __future__ import annotations

import sys

from app.edge.video import drivers
from tests.harness.agent.program import run_node


def main() -> int:
    drivers.RUNNER = drivers.HOST = "tests.harness.video.worker_program"
    return run_node()


if __name__ == "__main__":
    sys.exit(main())
