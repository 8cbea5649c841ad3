"""The commands about rows, rules and sinks: `add_result_commands` adds them to those of a kind of producers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.command import CommandFailed, Exit
from app.kit.cli.document_files import read_text
from app.kit.cli.partial_ids import only_match
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_lines, print_record
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.results.model.sink import SentBy, SinkContent, SinkKind, format_backlog, hide_password, kind_of
from app.results.rule_commands import Named, add_rule_commands

if TYPE_CHECKING:
    from app.results.client import ResultsClient

Sink = Annotated[str, typer.Argument(metavar="SINK", help="The sink's address, or the beginning of its id.")]


def add_result_commands(commands: ServiceCommands, place_of: Callable[[str], str], *, content: str) -> None:
    """Add `rows`, `rules`, `rule-events` and `sinks` to the commands of a kind of producers.

    Args:
        commands: theirs; their client is a ResultsClient.
        place_of: path in the API of what is named on the command line.
        content: what a sink gets if nothing is said: rows, events.
    """
    sinks = ServiceCommands(commands.client, help="Sinks: other destinations of the rows and events.")
    commands.add_typer(sinks, name="sinks")
    add_rule_commands(commands, place_of)

    @commands.command()
    def rows(
        client: ResultsClient,
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
    ) -> None:
        """Write all stored rows to standard output, oldest first."""
        criteria = {"since": since, "until": until, "label": label, "min_score": min_score}
        for piece in client.all_rows(place_of(named), form, **criteria):
            sys.stdout.buffer.write(piece)

    @sinks.command("list")
    def list_sinks(client: ResultsClient, named: Named, as_json: AsJson = False) -> None:
        """List the sinks with their state."""
        print_lines(client.sinks(place_of(named)), _format_sink, "There are no sinks.", as_json=as_json)

    @sinks.command()
    def add(
        client: ResultsClient,
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
        sent_by: Annotated[
            SentBy,
            typer.Option(help="Who delivers; node: the node that made the rows, also while the web server is away."),
        ] = SentBy.SERVER,
        as_json: AsJson = False,
    ) -> None:
        """Add a sink, which receives all further rows or events. The secret of an HTTP sink is shown only once."""
        kind = SinkKind.HOME_ASSISTANT if home_assistant else kind_of(address)
        sink = client.add_sink(place_of(named), kind, address, what, sent_by)
        secret = f"\nsecret   {sink['secret']}" if sink["secret"] else ""
        print_record(sink, f"{sink['sink_id']} is added.{secret}", as_json=as_json)

    @sinks.command()
    def apply(
        client: ResultsClient,
        named: Named,
        file: Annotated[
            str,
            typer.Argument(
                metavar="FILE",
                help="YAML: `sinks`, a list of `address`, `content`, `kind` and `sent_by`; -: standard input.",
            ),
        ],
        prune: Annotated[bool, typer.Option("--prune", help="Remove sinks that the file does not name.")] = False,
        as_json: AsJson = False,
    ) -> None:
        """Add the sinks in a file that are not there yet, compared by address without password and the other fields."""
        entries = _read_sinks(file, content)
        changes = _apply_sinks(client, place_of(named), entries, prune=prune)
        lines = [
            f"{sink['address']} is added.{sink['secret'] and ' secret ' + sink['secret']}" for sink in changes["added"]
        ]
        lines += [f"{sink['address']} is removed." for sink in changes["removed"]]
        print_record(changes, "\n".join(lines) or "Nothing changes.", as_json=as_json)

    @sinks.command()
    def test(client: ResultsClient, named: Named, sink: Sink, as_json: AsJson = False) -> None:
        """Send a test message to a sink. Exit code 1 if it was rejected."""
        answer = client.test_sink(place_of(named), _find_sink(client, place_of(named), sink)["sink_id"])
        text = "It was taken." if answer["is_taken"] else f"It was not taken: {answer['problem']}"
        print_record(answer, text, as_json=as_json)
        if not answer["is_taken"]:
            raise CommandFailed(Exit.FAILED)

    @sinks.command()
    def remove(client: ResultsClient, named: Named, sink: Sink, as_json: AsJson = False) -> None:
        """Remove a sink."""
        removed = _find_sink(client, place_of(named), sink)
        client.remove_sink(place_of(named), removed["sink_id"])
        print_record({"removed": removed["sink_id"]}, f"{removed['address']} is removed.", as_json=as_json)


def _find_sink(client: ResultsClient, place: str, part: str) -> JsonObject:
    fits = (
        sink
        for sink in client.sinks(place)
        if sink["sink_id"].startswith(part) or sink["address"] == hide_password(part)
    )
    return only_match(fits, part, field="sink_id", noun="sink", hint="`sinks list` shows them.")


SINK_FIELDS = ("kind", "address", "content", "sent_by")


def _read_sinks(file: str, content: str) -> list[JsonObject]:
    """Returns the sinks in a file, with all SINK_FIELDS.

    Args:
        file: its path; -: standard input.
        content: what a sink gets if nothing is said: rows, events.

    Raises:
        BadRequest: It has another form.
    """
    from app.kit.text.plain_yaml import UnreadableYaml, read_yaml

    try:
        document = read_yaml(read_text(file))
        return [_read_sink({"content": content, "sent_by": "server", **entry}) for entry in document["sinks"]]
    except (UnreadableYaml, KeyError, TypeError, ValueError) as error:
        hint = "It has `sinks`, a list of `address` and, if need be, `content` (rows, events), `kind` and `sent_by`."
        raise BadRequest(f"{file} cannot be read as a list of sinks.", hint=hint) from error


def _read_sink(entry: JsonObject) -> JsonObject:
    address = entry["address"]
    if not isinstance(address, str) or entry.keys() - {*SINK_FIELDS}:
        raise ValueError("it is no sink")
    kind, content = SinkKind(entry.get("kind") or kind_of(address)), SinkContent(entry["content"])
    return {"kind": kind, "address": address, "content": content, "sent_by": SentBy(entry["sent_by"])}


def _apply_sinks(
    client: ResultsClient, place: str, entries: Iterable[JsonObject], *, prune: bool
) -> dict[str, list[JsonObject]]:
    others = {tuple(sink[name] for name in SINK_FIELDS): sink for sink in client.sinks(place)}
    added = []
    for entry in entries:
        shown = {**entry, "address": hide_password(entry["address"])}
        if others.pop(tuple(shown[name] for name in SINK_FIELDS), None) is None:
            added.append(client.add_sink(place, **entry))
    removed = list(others.values()) if prune else []
    for sink in removed:
        client.remove_sink(place, sink["sink_id"])
    return {"added": added, "removed": removed}


def _format_sink(sink: JsonObject) -> str:
    counts = f"{sink['delivered']} delivered, {format_backlog(sink['backlog'])} waiting  {sink['problem']}".rstrip()
    skipped = f"\n  {sink['skipped']} were too large and were left out, the last: {sink['skip_reason']}"
    lost = f"\n  {sink['lost']} were dropped, because too many waited on the node"
    by = f" by {', '.join(sink['nodes']) or 'the node'}" if sink["sent_by"] == SentBy.NODE else ""
    line = f"{sink['sink_id']}  {sink['content']:6}  {sink['address']}{by}  {sink['state']}  {counts}"
    return line + (skipped if sink["skipped"] else "") + (lost if sink["lost"] else "")
