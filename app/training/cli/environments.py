"""The commands about environments: `modelmill train environment …`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.document_files import read_file
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_record, print_table

if TYPE_CHECKING:
    from app.training.client import TrainingClient

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the environment.")]
commands = ServiceCommands("app.training.client:TrainingClient", help="Environments of training tasks.")


@commands.command("list")
def list_environments(client: TrainingClient, as_json: AsJson = False) -> None:
    """List the environments that my tasks may use. Secrets are shown by name only."""
    from app.training.cli.tables import environments_table

    records = client.environments()
    print_table(records, environments_table, "There are no environments.", as_json=as_json)


@commands.command()
def put(
    client: TrainingClient,
    name: Name,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The environment as YAML or JSON; -: standard input.")],
    as_json: AsJson = False,
) -> None:
    """Add or replace an environment (administrators)."""
    record = client.put_environment(name, read_file(file))
    print_record(record, f"Environment {record['name']} is saved.", as_json=as_json)


@commands.command()
def delete(client: TrainingClient, name: Name, as_json: AsJson = False) -> None:
    """Delete an environment that no unfinished task uses (administrators)."""
    client.delete_environment(name)
    print_record({"removed": name}, f"Environment {name} is deleted.", as_json=as_json)
