"""`modelmill node`, less patient: it tries again sooner what did not succeed, and takes workers for running sooner.

Run as `python -m tests.harness.joint.hurried_node`, with its arguments.
"""

from __future__ import annotations

import sys

from app.cli import main as cli
from app.edge.agent import backoff, worker
from app.kit.backoff import GrowingPause


def main() -> int:
    backoff.PAUSE, backoff.LINK_PAUSE = GrowingPause(0.3, 60.0), GrowingPause(0.3, 1.0)
    worker.LIVED_S = 0.4
    sys.argv.insert(1, "node")
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
