"""`modelmill node`, less patient: it tries again sooner what did not succeed, and takes workers for running sooner.

Run as `python -m tests.harness.joint.hurried_node`, with its arguments.
"""

from __future__ import annotations

import sys

from app import cli
from app.nodes.agent import pausing, worker


def main() -> int:
    pausing.FIRST_S = 0.3
    pausing.LONGEST_LINK_S = 1.0
    worker.LIVED_S = 0.4
    sys.argv.insert(1, "node")
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
