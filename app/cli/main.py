"""The `modelmill` command: assembles the sub-commands and turns errors into sentences and exit codes.

Importing this module must stay cheap: `modelmill --help` imports neither onnx nor dramatiq.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.accounts.cli import commands as users_commands
from app.bootstrap.capabilities import CAPABILITIES
from app.cli import health, joint_operator, maintenance, node
from app.cli.up import command as up
from app.conversion.cli.archive import commands as archive_commands
from app.joint_inference.cli import commands as joint_commands
from app.kit.cli.command import EPILOG, CommandFailed, Exit, complain, exit_code
from app.kit.cli.terminal_text import visible_output
from app.kit.errors import ModelmillError

if TYPE_CHECKING:
    from app.accounts.service import Accounts

OLDEST_PYTHON = (3, 11)
BROKEN_PIPE = 141
app = typer.Typer(
    name="modelmill",
    help="Take a neural network from training to an edge NPU: train on Ray, convert ONNX → BIE → NEF, run it.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(is_given: bool) -> None:
    if is_given:
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


def _open_accounts(data_dir: Path | None) -> Accounts:
    from app.bootstrap.accounts import MIGRATIONS, open_accounts, settings_in
    from app.kit.sql.migrations import upgrade

    accounts = open_accounts(settings_in(data_dir))
    upgrade(accounts.database, MIGRATIONS)
    return accounts


def _reset_sftp(data_dir: Path | None, user: str) -> str:
    from app.accounts.cli import BY
    from app.bootstrap.accounts import settings_in
    from app.bootstrap.homes import open_homes

    accounts = _open_accounts(data_dir)
    accounts.users.get(user)
    return open_homes(settings_in(data_dir), accounts.database).sftp.reset_password(user, by=BY)


app.command("up", epilog=up.EPILOG)(up.up)
app.command("sftp", epilog=EPILOG)(maintenance.sftp)
app.add_typer(health.app, name="health")
app.add_typer(users_commands(_open_accounts, _reset_sftp), name="users")
app.add_typer(maintenance.app, name="db")
for capability in CAPABILITIES:
    capability.commands(app)
archive_commands.command("rebuild")(maintenance.rebuild)
joint_commands.command("operator")(joint_operator.operator)
app.command("node", epilog=EPILOG)(node.node)


def main() -> int:
    """Run the command line of this process. Returns the exit code, or exits with it."""
    if sys.version_info < OLDEST_PYTHON:
        print("modelmill: Python 3.11 or newer is needed.", file=sys.stderr)
        return Exit.BAD_INPUT
    with visible_output():
        return _run()


def _run() -> int:
    try:
        app()
    except CommandFailed as ended:
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
