"""`modelmill node` with what the product carries, but workers of the tests. Takes its arguments."""

from __future__ import annotations

import sys

import typer

from app import node_cli
from app.kit.command import complain, exit_code
from app.kit.errors import ModelmillError
from app.video import carrier


def main() -> int:
    carrier.RUNNER = carrier.HOST = "tests.harness.video.worker_program"
    command = typer.Typer(pretty_exceptions_enable=False)
    command.command()(node_cli.node)
    try:
        command(standalone_mode=False)
    except ModelmillError as error:
        complain(error)
        return exit_code(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
