"""The commands about rows, rules and sinks: `add_result_commands` adds them to those of a kind of producers."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.command import EPILOG, CommandFailed, Exit
from app.kit.cli.service_options import AsJson, Url
from app.kit.cli.tables import print_record
from app.results.model.sink import SinkKind, kind_of
from app.results.rule_commands import ClientOf, Named, add_rule_commands

if TYPE_CHECKING:
    from app.results.client import ResultsClient

Sink = Annotated[str, typer.Argument(metavar="SINK", help="Id of the sink, as `list` shows it.")]


def add_result_commands(
    commands: typer.Typer, place_of: Callable[[str], str], client_of: ClientOf, *, content: str
) -> None:
    """Add `rows`, `rules`, `rule-events` and `sinks` to the commands of a kind of producers.

    Args:
        commands: theirs.
        place_of: path in the API of what is named on the command line.
        client_of: the client for a context and an address; it is a ResultsClient.
        content: what a sink gets if nothing is said: rows, events.
    """
    sinks = typer.Typer(help="Sinks: other destinations of the rows and events.", no_args_is_help=True, epilog=EPILOG)
    commands.add_typer(sinks, name="sinks")
    add_rule_commands(commands, place_of, client_of)

    @commands.command()
    def rows(
        context: typer.Context,
        named: Named,
        form: Annotated[
            str,
            typer.Option(
                "--form",
                metavar="jsonl|csv|parquet",
                help="Format: jsonl has one line per frame; csv and parquet have one row per object.",
            ),
        ] = "jsonl",
        since: Annotated[
            str, typer.Option(metavar="TIME", help="Start of the period, included, such as 2026-11-20T08:00:00Z.")
        ] = "",
        until: Annotated[str, typer.Option(metavar="TIME", help="End of the period, excluded.")] = "",
        label: Annotated[str, typer.Option(metavar="CLASS", help="Only frames with an object of this class.")] = "",
        min_score: Annotated[
            float | None, typer.Option(min=0, max=1, help="Lowest score of such an object, 0 to 1.")
        ] = None,
        url: Url = None,
    ) -> None:
        """Write all stored rows to standard output, oldest first."""
        criteria = {"since": since, "until": until, "label": label, "min_score": min_score}
        with client_of(context, url) as client:
            for piece in client.all_rows(place_of(named), form, **criteria):
                sys.stdout.buffer.write(piece)

    @sinks.command("list")
    def list_sinks(context: typer.Context, named: Named, as_json: AsJson = False, url: Url = None) -> None:
        """List the sinks with their state."""
        with client_of(context, url) as client:
            _print_sinks(client, place_of(named), as_json=as_json)

    @sinks.command()
    def add(
        context: typer.Context,
        named: Named,
        address: Annotated[
            str,
            typer.Argument(
                help="Address of the sink: https://…, mqtt[s]://[user:password@]host[:port]/topic, "
                "redis://host/database/stream, kafka[s]://[user:password@]host[:port]/topic, "
                "or a folder of your data home, such as datasets/door."
            ),
        ],
        what: Annotated[str, typer.Option("--content", metavar="events|rows", help="What is sent.")] = content,
        home_assistant: Annotated[
            bool,
            typer.Option("--home-assistant", help="Send to Home Assistant by MQTT, as sensors with their last state."),
        ] = False,
        as_json: AsJson = False,
        url: Url = None,
    ) -> None:
        """Add a sink, which receives all further rows or events. The secret of an HTTP sink is shown only once."""
        kind = SinkKind.HOME_ASSISTANT if home_assistant else kind_of(address)
        with client_of(context, url) as client:
            sink = client.add_sink(place_of(named), kind, address, what)
        secret = f"\nsecret   {sink['secret']}" if sink["secret"] else ""
        print_record(sink, f"{sink['sink_id']} is added.{secret}", as_json=as_json)

    @sinks.command()
    def test(context: typer.Context, named: Named, sink: Sink, as_json: AsJson = False, url: Url = None) -> None:
        """Send a test message to a sink. Exit code 1 if it was rejected."""
        with client_of(context, url) as client:
            answer = client.test_sink(place_of(named), sink)
        text = "It was taken." if answer["is_taken"] else f"It was not taken: {answer['problem']}"
        print_record(answer, text, as_json=as_json)
        if not answer["is_taken"]:
            raise CommandFailed(Exit.FAILED)

    @sinks.command()
    def remove(context: typer.Context, named: Named, sink: Sink, as_json: AsJson = False, url: Url = None) -> None:
        """Remove a sink."""
        with client_of(context, url) as client:
            client.remove_sink(place_of(named), sink)
        print_record({"removed": sink}, f"{sink} is removed.", as_json=as_json)


def _print_sinks(client: ResultsClient, place: str, *, as_json: bool) -> None:
    sinks = client.sinks(place)
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
        if sink["skipped"]:
            typer.echo(f"  {sink['skipped']} were too large and were left out, the last: {sink['skip_reason']}")
