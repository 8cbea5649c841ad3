"""`modelmill node`, less patient: it tries again sooner what did not succeed, and takes workers for running sooner.

Run as `python -m tests.harness.joint.hurried_node`, with its arguments.
"""

from __future__ import annotations

import sys

from app.cli import main as cli
from app.edge.agent import backoff, worker


def main() -> int:
    backoff.FIRST_S = 0.3
    backoff.LONGEST_LINK_S = 1.0
    worker.LIVED_S = 0.4
    sys.argv.insert(1, "node")
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
