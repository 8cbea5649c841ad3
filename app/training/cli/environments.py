"""The commands about environments: `modelmill train environment …`."""

from __future__ import annotations

from typing import Annotated

import typer

from app.kit.cli.command import EPILOG
from app.kit.cli.document_files import read_file
from app.kit.cli.service_options import AsJson, Url
from app.kit.cli.tables import print_record, print_table
from app.training.cli.service import client_of

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the environment.")]
commands = typer.Typer(help="Environments of training tasks.", no_args_is_help=True, epilog=EPILOG)


@commands.command("list")
def list_environments(context: typer.Context, as_json: AsJson = False, url: Url = None) -> None:
    """List the environments that my tasks may use. Secrets are shown by name only."""
    from app.training.cli.tables import environments_table

    with client_of(context, url) as client:
        records = client.environments()
    print_table(records, environments_table, "There are no environments.", as_json=as_json)


@commands.command()
def put(
    context: typer.Context,
    name: Name,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The environment as YAML or JSON; -: standard input.")],
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Add or replace an environment (administrators)."""
    with client_of(context, url) as client:
        record = client.put_environment(name, read_file(file))
    print_record(record, f"Environment {record['name']} is saved.", as_json=as_json)


@commands.command()
def delete(context: typer.Context, name: Name, as_json: AsJson = False, url: Url = None) -> None:
    """Delete an environment that no unfinished task uses (administrators)."""
    with client_of(context, url) as client:
        client.delete_environment(name)
    print_record({"removed": name}, f"Environment {name} is deleted.", as_json=as_json)
