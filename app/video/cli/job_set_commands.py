"""The commands about job sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.document_files import read_json
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_lines, print_record
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.kit.text.labels import labels_in, text_of
from app.video.cli.command_group import comma_separated, commands, number_or_text

if TYPE_CHECKING:
    from app.video.client import VideoClient

sets = ServiceCommands(
    "app.video.client:VideoClient", help="Job sets: a job on every video of the nodes with certain labels."
)
commands.add_typer(sets, name="sets")
SetId = Annotated[str, typer.Argument(metavar="SET", help="Id of the job set.")]


@sets.command()
def add(
    client: VideoClient,
    selector: Annotated[str, typer.Option(metavar="KEY=VALUE,…", help="Labels that select the nodes.")],
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="The job set as JSON, like the body of POST /api/v2/video/job-sets; -: standard input.",
        ),
    ] = None,
    flow: Annotated[str | None, typer.Option(metavar="A,B", help="Stages in their order, instead of a DAG.")] = None,
    video: Annotated[
        str | None, typer.Option(metavar="ID", help="Id of the video on each node; default: all videos.")
    ] = None,
    restart: Annotated[
        str, typer.Option(metavar="never|eos|error|always", help="When the source is read again from its start.")
    ] = "always",
    name: Annotated[str | None, typer.Option(metavar="NAME", help="A name of your own.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a DAG of stages on every video of the nodes with these labels, including nodes added later."""
    body = {"restart_policy": restart, **(read_json(file) if file else {}), "node_selector": labels_in(selector)}
    if flow:
        body.pop("dag", None)
        body["stages"] = comma_separated(flow)
    body |= {"video_id": number_or_text(video)} if video else {}
    body |= {"name": name} if name else {}
    if not {"dag", "stages"} & set(body):
        raise BadRequest("a DAG or --flow is missing", hint="Give a FILE with a dag, or --flow.")
    record = client.add_set(body)
    print_record(record, as_json=as_json, text=f"{record['set_id']} added")


@sets.command("list")
def list_sets(client: VideoClient, as_json: AsJson = False) -> None:
    """List my job sets, newest first."""
    print_lines(client.sets(), _format_job_set, "There are no job sets.", as_json=as_json)


@sets.command()
def show(client: VideoClient, job_set: SetId, as_json: AsJson = False) -> None:
    """Show a job set and its jobs."""
    record = client.job_set(job_set)
    lines = [f"{j['node']}/{j['video_id']}  {j['uid']}  {j['state']}  {j['reason']}".rstrip() for j in record["jobs"]]
    print_record(record, as_json=as_json, text="\n".join([_format_job_set(record), *lines]))


@sets.command()
def remove(client: VideoClient, job_set: SetId, as_json: AsJson = False) -> None:
    """Delete a job set, and cancel its jobs."""
    client.remove_set(job_set)
    print_record({"removed": job_set}, f"{job_set} removed", as_json=as_json)


def _format_job_set(record: JsonObject) -> str:
    counts = f"{record['running']} of {record['under_way']} jobs run"
    facts = (record["set_id"], record["name"] or "-", text_of(record["node_selector"]), counts, record["problem"])
    return "  ".join(facts).rstrip()
