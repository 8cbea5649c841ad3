"""Commands about resources: nodes with videos, stages and their kinds, policies, and profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.access import words_of
from app.kit.cli.command import CommandFailed, Exit
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import Administrators, Allowed, AsJson, Everybody
from app.kit.cli.tables import print_record, print_table
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.video.cli.command_group import comma_separated, commands, number_or_text
from app.video.cli.plan_commands import dag_in

if TYPE_CHECKING:
    from app.video.client import VideoClient


stages = ServiceCommands("app.video.client:VideoClient", help="Stages that a DAG can use.")
commands.add_typer(stages, name="stages")
Name = Annotated[str, typer.Argument(metavar="STAGE", help="Name of the stage.")]


@commands.command()
def nodes(client: VideoClient, as_json: AsJson = False) -> None:
    """List the nodes that have videos."""
    from app.video.cli.tables import nodes_table

    records = client.nodes()
    print_table(records, nodes_table, "There are no nodes with videos.", as_json=as_json)


@commands.command()
def kinds(client: VideoClient, as_json: AsJson = False) -> None:
    """List the kinds of stages and generators with their inputs and outputs."""
    from app.video.cli.tables import kinds_table

    print_table(client.kinds(), kinds_table, "", as_json=as_json)


@commands.command()
def policies(client: VideoClient, as_json: AsJson = False) -> None:
    """List the scheduling policies."""
    from app.video.cli.tables import policies_table

    print_table(client.policies(), policies_table, "", as_json=as_json)


@stages.command("list")
def list_stages(client: VideoClient, as_json: AsJson = False) -> None:
    """List the stages, by name."""
    from app.video.cli.tables import stages_table

    records = client.stages()
    print_table(
        records, stages_table, "There are no stages: add one with `modelmill video stages set`.", as_json=as_json
    )


@stages.command("set")
def set_stage(
    client: VideoClient,
    name: Name,
    kind: Annotated[str, typer.Option(metavar="KIND", help="Kind of the stage; `modelmill video kinds` lists them.")],
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL[,MODEL]",
            help="A model of the stage. Repeat it for the big, medium and small model; A,B if the kind needs two.",
        ),
    ] = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", "-p", metavar="NAME=VALUE", help="A parameter of the stage. Can be repeated."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Add or replace a stage, with models of your own (administrators)."""
    parameters = dict(_parse_pair(text) for text in parameter or ())
    stage: JsonObject = {
        "kind": kind,
        "models": [comma_separated(names) for names in model or ()],
        "parameters": parameters,
    }
    record = client.put_stage(name, stage)
    print_record(record, as_json=as_json, text=f"stage {name} set")


@stages.command("allow")
def allow_stage(
    client: VideoClient,
    name: Name,
    who: Allowed = None,
    everybody: Everybody = False,
    administrators: Administrators = False,
    as_json: AsJson = False,
) -> None:
    """Set who may use a stage in jobs (administrators). Without names: print the access rule."""
    if sum((bool(who), everybody, administrators)) > 1:
        raise BadRequest("These contradict each other.", hint="Give names, or --everybody, or --administrators.")
    if who or everybody or administrators:
        record = client.put_stage_access(name, None if everybody else who or [])
    else:
        record = client.stage_access(name)
    print_record(record, f"{name}: {words_of(record['allowed'])}", as_json=as_json)


@stages.command("remove")
def remove_stage(client: VideoClient, name: Name, as_json: AsJson = False) -> None:
    """Remove a stage that no job uses (administrators)."""
    client.remove_stage(name)
    print_record({"removed": name}, f"stage {name} removed", as_json=as_json)


@commands.command()
def profile(
    client: VideoClient,
    node: Annotated[str, typer.Option(metavar="NODE", help="Name of the node that has the video.")],
    video: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Id of the video to measure with; default: print the stored results."),
    ] = None,
    dag: Annotated[str | None, typer.Option(metavar="FILE", help="The DAG as JSON.")] = None,
    flow: Annotated[str | None, typer.Option(metavar="A,B", help="Stages instead of a DAG; default: all.")] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", min=0, help="Longest time to wait. After it, the command ends with exit code 1."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure each stage, model and size on a node and on the nodes that it can reach, and print the results."""
    from app.video.cli.job_follower import exit_of, follow
    from app.video.cli.tables import measurements_table

    if video is not None:
        names = comma_separated(flow) or [stage["name"] for stage in client.stages()]
        work: JsonObject = {"dag": dag_in(dag)} if dag else {"stages": names}
        if not dag and not names:
            raise BadRequest("there are no stages to measure", hint="Add some: `modelmill video stages set`.")
        uid = client.profile({"node": node, "video_id": number_or_text(video), **work})["uid"]
        typer.echo(f"{uid} measures; end it with `modelmill video cancel {uid}`", err=True)
        record = follow(client, uid, _format_progress, is_quiet=True, timeout_s=timeout)
        if (code := exit_of(record)) is not Exit.OK:
            raise CommandFailed(code)
    rows = client.measurements(node="" if video is not None else node)
    print_table(rows, measurements_table, "Nothing has been measured.", as_json=as_json)


def _format_progress(record: JsonObject) -> str:
    return f"{record['state']} {record['progress']:.0%}  {record['reason']}".rstrip()


def _parse_pair(text: str) -> tuple[str, str]:
    name, is_given, value = text.partition("=")
    if not name or not is_given:
        raise BadRequest(f"--parameter: {text!r} is none", hint="Write it as NAME=VALUE.")
    return name, value
