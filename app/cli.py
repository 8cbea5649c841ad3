"""The `modelmill` command: assembles the sub-commands and turns errors into sentences and exit codes.

Importing this module must stay cheap: `modelmill --help` imports neither onnx nor dramatiq.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from app.conversion import cli as conversion
from app.embedded import cli as embedded
from app.kit.command import EPILOG, Ended, Exit, complain, exit_code
from app.kit.errors import ModelmillError

OLDEST_PYTHON = (3, 11)
BROKEN_PIPE = 141
app = typer.Typer(
    name="modelmill",
    help="Takes a neural network from ONNX to an edge NPU: ONNX → BIE → NEF.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version

        typer.echo(f"modelmill {version('modelmill')}")
        raise typer.Exit


@app.callback()
def root(
    context: typer.Context,
    url: Annotated[
        str | None, typer.Option(envvar="MODELMILL_URL", metavar="URL", help="Address of the service.")
    ] = None,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    context.obj = url


app.command("up", epilog=embedded.EPILOG)(embedded.up)
conversion.register(app)


def main() -> int:
    """Run the command line of this process. Returns the exit code, or exits with it."""
    if sys.version_info < OLDEST_PYTHON:
        print("modelmill: Python 3.11 or newer is needed.", file=sys.stderr)
        return Exit.BAD_INPUT
    try:
        app()
    except Ended as ended:
        return ended.code
    except ModelmillError as error:
        complain(error)
        return exit_code(error)
    except BrokenPipeError:  # the reader of our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    return Exit.OK


if __name__ == "__main__":
    sys.exit(main())
