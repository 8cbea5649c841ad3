"""The commands about rules and their events."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from app.kit.cli.service_options import AsJson, Url
from app.video.cli.command_group import Json, Uid, client_of, commands, read_json


@commands.command("rules")
def rules(
    context: typer.Context,
    job: Uid,
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="Zones and rules as JSON, in place of those it has; - is stdin."),
    ] = None,
    url: Url = None,
) -> None:
    """What of a job's detections makes an event, as JSON; with a FILE other rules from now on."""
    with client_of(context, url) as client:
        kept = client.put_rules(job, read_json(file)) if file else client.rules(job)
    problem = kept.pop("problem")
    typer.echo(json.dumps(kept, indent=2))
    if problem and kept["rules"]:
        why = {"no_boxes": "its stages give no boxes", "no_size": "the size of the source is not known"}[problem]
        typer.echo(f"No rule can hold now: {why}.", err=True)


@commands.command("rule-events")
def rule_events(
    context: typer.Context,
    job: Uid,
    rule: Annotated[str, typer.Option("--rule", metavar="NAME", help="Of this rule alone.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=500, help="How many, the newest.")] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more. Ctrl-C ends it.")] = False,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """When the rules of a job held, oldest first."""
    from app.video.cli.job_follower import followed_events

    with client_of(context, url) as client:
        newest = client.rule_events(job, rule=rule, limit=limit)["events"][::-1]
        _print(newest, as_json=as_json)
        if not newest and not follow and not as_json:
            typer.echo("There are no events.")
        if follow:
            for events in followed_events(client, job, rule=rule, cursor=newest[-1]["event_id"] if newest else 0):
                _print(events, as_json=as_json)


def _print(events: list[Json], *, as_json: bool) -> None:
    for event in events:
        line = f"{event['at']}  {event['rule']}  {event['text']}  (frame {event['n_loop']})"
        typer.echo(json.dumps(event) if as_json else line)
