"""The commands about sinks."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from app.kit.cli.service_options import AsJson, Url
from app.video.cli.command_group import Uid, client_of, commands, print_record

group = typer.Typer(help="Where the rows and events of a job go besides: list, add, remove.", no_args_is_help=True)
commands.add_typer(group, name="sinks")


@group.command("list")
def list_sinks(context: typer.Context, job: Uid, as_json: AsJson = False, url: Url = None) -> None:
    """Where to, and how that does."""
    with client_of(context, url) as client:
        sinks = client.sinks(job)
    if as_json:
        typer.echo(json.dumps(sinks, indent=2))
        return
    if not sinks:
        typer.echo("There are no sinks.")
    for sink in sinks:
        typer.echo(
            f"{sink['sink_id']}  {sink['content']:6}  {sink['address']}  {sink['state']}  "
            f"{sink['delivered']} delivered, {sink['backlog']} waiting  {sink['problem']}".rstrip()
        )


@group.command()
def add(
    context: typer.Context,
    job: Uid,
    address: Annotated[str, typer.Argument(help="https://…, or mqtt[s]://[user:password@]host[:port]/topic.")],
    content: Annotated[str, typer.Option("--content", metavar="events|rows", help="What goes there.")] = "events",
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Send what comes from now on there, too. The secret of HTTP is shown once."""
    kind = "mqtt" if address.startswith("mqtt") else "http"
    with client_of(context, url) as client:
        sink = client.add_sink(job, kind, address, content)
    secret = f"\nsecret   {sink['secret']}" if sink["secret"] else ""
    print_record(sink, as_json=as_json, text=f"{sink['sink_id']} is added.{secret}")


@group.command()
def remove(
    context: typer.Context,
    job: Uid,
    sink: Annotated[str, typer.Argument(metavar="SINK", help="As `list` shows it.")],
    url: Url = None,
) -> None:
    """Send nothing there any more."""
    with client_of(context, url) as client:
        client.remove_sink(job, sink)
    typer.echo(f"{sink} is removed.")
