"""The commands about sinks."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from app.kit.cli.command import CommandFailed, Exit
from app.kit.cli.service_options import AsJson, Url
from app.video.cli.command_group import Uid, client_of, commands, print_record

KINDS = {"mqtt": "mqtt", "mqtts": "mqtt", "redis": "redis"}
"""By the scheme of an address; any other is HTTP's."""
group = typer.Typer(help="Where the rows and events of a job go besides.", no_args_is_help=True)
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
    address: Annotated[
        str,
        typer.Argument(
            help="https://…, mqtt[s]://[user:password@]host[:port]/topic, redis://host/database/stream, or a folder of "
            "your data home, as datasets/door."
        ),
    ],
    content: Annotated[str, typer.Option("--content", metavar="events|rows", help="What goes there.")] = "events",
    home_assistant: Annotated[
        bool, typer.Option("--home-assistant", help="By MQTT as sensors of Home Assistant, with the last state.")
    ] = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Send what comes from now on there, too. The secret of HTTP is shown once."""
    scheme, _, rest = address.partition("://")
    kind = "home_assistant" if home_assistant else KINDS.get(scheme, "http") if rest else "file"
    with client_of(context, url) as client:
        sink = client.add_sink(job, kind, address, content)
    secret = f"\nsecret   {sink['secret']}" if sink["secret"] else ""
    print_record(sink, as_json=as_json, text=f"{sink['sink_id']} is added.{secret}")


@group.command()
def test(
    context: typer.Context,
    job: Uid,
    sink: Annotated[str, typer.Argument(metavar="SINK", help="As `list` shows it.")],
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Send it a message that says nothing but that it arrives. Exit code 1: it was not taken."""
    with client_of(context, url) as client:
        answer = client.test_sink(job, sink)
    text = "It was taken." if answer["is_taken"] else f"It was not taken: {answer['problem']}"
    print_record(answer, as_json=as_json, text=text)
    if not answer["is_taken"]:
        raise CommandFailed(Exit.FAILED)


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
