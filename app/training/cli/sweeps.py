"""The commands about sweeps of tasks: `modelmill train sweep …`."""

from __future__ import annotations

import json
import uuid
from typing import Annotated

import typer

from app.kit.cli.command import EPILOG
from app.kit.cli.document_files import read_file
from app.kit.cli.service_options import AsJson, Url
from app.kit.cli.tables import print_record
from app.kit.text.json_values import JsonObject
from app.training.cli.service import Changes, change_of, client_of, tell_changes

SweepId = Annotated[str, typer.Argument(metavar="ID", help="Id of the sweep, as `start` prints it.")]
commands = typer.Typer(
    help="Train with several values of some fields, and compare the results.", no_args_is_help=True, epilog=EPILOG
)


@commands.command()
def start(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A task as YAML, with `vary`; -: standard input.")],
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Submit a task for each combination of values, or a number of tasks with random values or values of Optuna."""
    with client_of(context, url) as client:
        sweep = client.submit_sweep(read_file(file), idempotency_key=str(uuid.uuid4()))
    print_record(sweep, f"{sweep['sweep_id']} has {len(sweep['tasks'])} tasks.", as_json=as_json)


@commands.command()
def again(
    context: typer.Context, sweep: SweepId, changes: Changes = None, as_json: AsJson = False, url: Url = None
) -> None:
    """Start a sweep again, with other values (--set most=20 --set 'vary.total_epochs=[1, 2]')."""
    values = dict(map(change_of, changes or ()))
    with client_of(context, url) as client:
        record = client.sweep_again(sweep, values, idempotency_key=str(uuid.uuid4()))
    if as_json:
        typer.echo(json.dumps(record, indent=2))
        return
    tell_changes(record)
    typer.echo(f"{record['sweep_id']} has {len(record['tasks'])} tasks.")


@commands.command(name="list")
def list_sweeps(context: typer.Context, as_json: AsJson = False, url: Url = None) -> None:
    """List the last sweeps, newest first."""
    with client_of(context, url) as client:
        sweeps = client.sweeps()
    if as_json:
        typer.echo(json.dumps(sweeps, indent=2))
        return
    from app.kit.cli.tables import wide_console
    from app.training.cli.tables import sweeps_table

    wide_console().print(sweeps_table(sweeps))


@commands.command()
def show(context: typer.Context, sweep: SweepId, as_json: AsJson = False, url: Url = None) -> None:
    """Show the tasks of a sweep with their values and their best metric. * marks the best task."""
    with client_of(context, url) as client:
        view = client.sweep(sweep)
    _print(view, as_json=as_json)


@commands.command()
def cancel(context: typer.Context, sweep: SweepId, as_json: AsJson = False, url: Url = None) -> None:
    """Cancel a sweep and its unfinished tasks."""
    with client_of(context, url) as client:
        view = client.cancel_sweep(sweep)
    _print(view, as_json=as_json)


def _print(view: JsonObject, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(view, indent=2))
        return
    from app.kit.cli.tables import wide_console
    from app.training.cli.tables import sweep_table

    wide_console().print(sweep_table(view))
    typer.echo(f"{len(view['tasks'])} of {view['size']} tasks. {view['remark']}".rstrip())
