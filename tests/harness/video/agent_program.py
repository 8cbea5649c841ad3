"""`modelmill node` with what the product carries, but workers of the tests. Takes its arguments."""

from __future__ import annotations

import sys

import typer

from app.cli import node
from app.edge.video import drivers
from app.kit.cli.command import complain, exit_code
from app.kit.errors import ModelmillError


def main() -> int:
    drivers.RUNNER = drivers.HOST = "tests.harness.video.worker_program"
    command = typer.Typer(pretty_exceptions_enable=False)
    command.command()(node.node)
    try:
        command(standalone_mode=False)
    except ModelmillError as error:
        complain(error)
        return exit_code(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
