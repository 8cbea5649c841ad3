"""The commands about sweeps of tasks: `modelmill train sweep …`."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.document_files import read_file
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_record
from app.kit.text.json_values import JsonObject
from app.training.cli.service import Changes, change_of, tell_changes

if TYPE_CHECKING:
    from app.training.client import TrainingClient

SweepId = Annotated[str, typer.Argument(metavar="ID", help="Id of the sweep, as `start` prints it.")]
commands = ServiceCommands(
    "app.training.client:TrainingClient", help="Train with several values of some fields, and compare the results."
)


@commands.command()
def start(
    client: TrainingClient,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A task as YAML, with `vary`; -: standard input.")],
    as_json: AsJson = False,
) -> None:
    """Submit a task for each combination of values, or a number of tasks with random values or values of Optuna."""
    sweep = client.submit_sweep(read_file(file), idempotency_key=str(uuid.uuid4()))
    print_record(sweep, f"{sweep['sweep_id']} has {len(sweep['tasks'])} tasks.", as_json=as_json)


@commands.command()
def again(client: TrainingClient, sweep: SweepId, changes: Changes = None, as_json: AsJson = False) -> None:
    """Start a sweep again, with other values (--set most=20 --set 'vary.total_epochs=[1, 2]')."""
    values = dict(map(change_of, changes or ()))
    record = client.sweep_again(sweep, values, idempotency_key=str(uuid.uuid4()))
    if not as_json:
        tell_changes(record)
    print_record(record, f"{record['sweep_id']} has {len(record['tasks'])} tasks.", as_json=as_json)


@commands.command(name="list")
def list_sweeps(client: TrainingClient, as_json: AsJson = False) -> None:
    """List the last sweeps, newest first."""
    sweeps = client.sweeps()
    if as_json:
        typer.echo(json.dumps(sweeps, indent=2))
        return
    from app.kit.cli.tables import wide_console
    from app.training.cli.tables import sweeps_table

    wide_console().print(sweeps_table(sweeps))


@commands.command()
def show(client: TrainingClient, sweep: SweepId, as_json: AsJson = False) -> None:
    """Show the tasks of a sweep with their values and their best metric. * marks the best task."""
    view = client.sweep(sweep)
    _print(view, as_json=as_json)


@commands.command()
def cancel(client: TrainingClient, sweep: SweepId, as_json: AsJson = False) -> None:
    """Cancel a sweep and its unfinished tasks."""
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
