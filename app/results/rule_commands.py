"""The commands about rules and their events: `add_rule_commands` adds them to those of a kind of producers."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.document_files import read_json
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.results.client import ResultsClient

EVERY_S = 2.0
"""Between two requests."""
AT_ONCE = 200
Named = Annotated[str, typer.Argument(metavar="NAME", help="The uid of a video job, or [NAMESPACE/]NAME of a service.")]
WHY = {"no_boxes": "its rows have no boxes", "no_size": "the size of the source is not known"}


def add_rule_commands(commands: ServiceCommands, place_of: Callable[[str], str]) -> None:
    """Add `rules` and `rule-events` to the commands of a kind of producers. Arguments as of add_result_commands."""

    @commands.command()
    def rules(
        client: ResultsClient,
        named: Named,
        file: Annotated[
            str | None,
            typer.Argument(metavar="[FILE]", help="The new zones and rules as JSON; -: standard input."),
        ] = None,
    ) -> None:
        """Print the zones and rules as JSON. With a FILE: replace them."""
        place = place_of(named)
        kept = client.put_rules(place, read_json(file)) if file else client.rules(place)
        problem = kept.pop("problem")
        typer.echo(json.dumps(kept, indent=2))
        if problem and kept["rules"]:
            typer.echo(f"No rule can hold now: {WHY[problem]}.", err=True)

    @commands.command("rule-events")
    def rule_events(
        client: ResultsClient,
        named: Named,
        rule: Annotated[str, typer.Option("--rule", metavar="NAME", help="Only events of this rule.")] = "",
        limit: Annotated[int, typer.Option(min=1, max=500, help="Largest number of events, the newest ones.")] = 20,
        follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for further events, until Ctrl-C.")] = False,
        as_json: AsJson = False,
    ) -> None:
        """List the events of the rules, oldest first."""
        place = place_of(named)
        newest = client.rule_events(place, rule=rule, limit=limit)["events"][::-1]
        _print(newest, as_json=as_json)
        if not newest and not follow and not as_json:
            typer.echo("There are no events.")
        if follow:
            cursor = newest[-1]["event_id"] if newest else 0
            for events in follow_events(client, place, rule=rule, cursor=cursor):
                _print(events, as_json=as_json)


def follow_events(client: ResultsClient, place: str, *, rule: str = "", cursor: int = 0) -> Iterator[list[JsonObject]]:
    """Without an end.

    Args:
        place: Of the producer in the API.
        rule: Of this rule alone; empty: of all.
        cursor: The event_id of the last one that is known.

    Yields:
        What has come since, oldest first; nothing after a pause in which nothing came.
    """
    while True:
        events = client.rule_events(place, rule=rule, limit=AT_ONCE, order="asc", cursor=cursor)["events"]
        if events:
            cursor = events[-1]["event_id"]
        else:
            time.sleep(EVERY_S)
        yield events


def _print(events: list[JsonObject], *, as_json: bool) -> None:
    for event in events:
        line = f"{event['at']}  {event['rule']}  {event['text']}  (frame {event['n_loop']})"
        typer.echo(json.dumps(event) if as_json else line)
