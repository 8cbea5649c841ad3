"""The commands about jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.command import CommandFailed, Exit
from app.kit.cli.document_files import read_json
from app.kit.cli.service_options import AsJson, Limit
from app.kit.cli.tables import print_record, print_table
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject
from app.video.cli.command_group import Uid, comma_separated, commands, number_or_text

if TYPE_CHECKING:
    from app.video.client import VideoClient

RENAMED = {"node_addr": "node", "user_constraint": "constraint"}
"""The requirement's keys, as /api/v2 calls them."""
OWN = "unique_job_id"


@commands.command()
def submit(
    client: VideoClient,
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]", help="The job as JSON, like the body of POST /api/v2/video/jobs; -: standard input."
        ),
    ] = None,
    node: Annotated[str | None, typer.Option(metavar="NODE", help="Name or address of the node.")] = None,
    video: Annotated[str | None, typer.Option(metavar="ID", help="Id of the video on the node.")] = None,
    flow: Annotated[str | None, typer.Option(metavar="A,B", help="Stages in their order, instead of a DAG.")] = None,
    policy: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the scheduling policy.")] = None,
    delay: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Longest time per frame, in seconds.")
    ] = None,
    restart: Annotated[
        str | None, typer.Option(metavar="never|eos|error|always", help="When the source is read again from its start.")
    ] = None,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="A name of your own.")] = None,
    each_frame: Annotated[
        bool, typer.Option("--each-frame", help="Process every frame as fast as possible, and drop none.")
    ] = False,
    motion: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Process only frames in which at least this share of the pixels has changed, such as 0.005.",
        ),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(
            metavar="X1,Y1,X2,Y2",
            help="Process only this part of each frame; coordinates are shares of its sides, 0 to 1.",
        ),
    ] = None,
    record_h: Annotated[
        float | None,
        typer.Option(
            "--record", metavar="HOURS", min=0, help="Hours of video with detections to keep on the node; see `clip`."
        ),
    ] = None,
    broadcast: Annotated[
        str | None,
        typer.Option(
            metavar="PATH", help="Push the picture with its detections to the node's media server, under this path."
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Follow the job until it ends.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a DAG of stages on a video of a node. Options take precedence over the file."""
    job = _load_job(file) if file else {}
    job |= {"node": node} if node else {}
    job |= {"video_id": number_or_text(video)} if video else {}
    if flow:
        job.pop("dag", None)
        job["stages"] = comma_separated(flow)
    job |= {"policy": policy} if policy else {}
    job |= {"constraint": {**(job.get("constraint") or {}), "delay": delay}} if delay is not None else {}
    job |= {"restart_policy": restart} if restart else {}
    job |= {"realtime": False} if each_frame else {}
    job |= {"name": name} if name else {}
    gate = {**({"motion": motion} if motion is not None else {}), **({"region": region} if region else {})}
    job |= {"gate": gate} if gate else {}
    job |= {"recording": {**(job.get("recording") or {}), "hours": record_h}} if record_h is not None else {}
    job |= {"broadcast": {**(job.get("broadcast") or {}), "path": broadcast}} if broadcast else {}
    missing = [name for name in ("node", "video_id") if name not in job]
    if missing or not ({"dag", "stages"} & set(job)):
        raise BadRequest(
            f"{(missing or ['a DAG or --flow'])[0]} is missing",
            hint="Give a FILE with the requirement's body, or --node, --video and --flow.",
        )
    record = client.submit(job)
    print_record(record, as_json=as_json and not watch, text=f"{record['uid']} submitted")
    if watch:
        _follow_job(client, record["uid"], as_json=as_json)


@commands.command("list")
def list_jobs(
    client: VideoClient,
    state: Annotated[str | None, typer.Option(metavar="UNSCHED|EXEC|DONE", help="Only jobs in this state.")] = None,
    search: Annotated[
        str | None, typer.Option("--search", "-q", help="Text in the name, the uid, the node or the video.")
    ] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List my video jobs, newest first."""
    from app.video.cli.tables import jobs_table

    records = list(client.jobs(limit=limit, state=state.upper() if state else None, q=search))
    print_table(records, partial(jobs_table, now=datetime.now(UTC)), "There are no video jobs.", as_json=as_json)


@commands.command()
def show(
    client: VideoClient,
    job: Uid,
    decisions: Annotated[
        bool, typer.Option("--decisions", help="Also the decisions of the scheduler, newest first.")
    ] = False,
    events: Annotated[bool, typer.Option("--events", help="Also the events of the job, oldest first.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a video job: its state and the reason, its plan, and its performance."""
    from app.kit.cli.tables import wide_console
    from app.video.cli.tables import decisions_table, job_lines

    record = client.job(job)
    record |= {"decisions": client.decisions(job)} if decisions else {}
    record |= {"events": client.events(job)} if events else {}
    print_record(record, as_json=as_json, text="\n".join(job_lines(record)))
    if as_json:
        return
    for event in record.get("events", ()):
        typer.echo(f"{event['at']}  {event['type']:<10}  {event['message']}")
    if decisions:
        wide_console().print(decisions_table(record["decisions"]))


@commands.command()
def watch(client: VideoClient, job: Uid, as_json: AsJson = False) -> None:
    """Follow a job until it ends, and print each change of its state, plan and delays. Ctrl-C leaves it running."""
    _follow_job(client, job, as_json=as_json)


@commands.command()
def rename(
    client: VideoClient,
    job: Uid,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name; empty: none.")],
    as_json: AsJson = False,
) -> None:
    """Rename a video job."""
    record = client.rename(job, name)
    print_record(
        record, as_json=as_json, text=f"{job} is called {record['name']}" if record["name"] else f"{job} has no name"
    )


@commands.command()
def cancel(client: VideoClient, job: Uid, as_json: AsJson = False) -> None:
    """Cancel a video job. A job that has ended does not change."""
    record = client.cancel(job)
    print_record(record, as_json=as_json, text=f"{job} {record['ending'] or 'is being cancelled'}")


@commands.command()
def delete(client: VideoClient, job: Uid, as_json: AsJson = False) -> None:
    """Delete a video job that has ended, with its results and images."""
    client.delete(job)
    print_record({"removed": job}, f"{job} deleted", as_json=as_json)


def _load_job(file: str) -> JsonObject:
    job = {RENAMED.get(key, key): value for key, value in read_json(file).items()}
    job.pop(OWN, None)
    return job


def _follow_job(client: VideoClient, uid: str, *, as_json: bool) -> None:
    """Shows the job until its end. The command fails unless the job finishes."""
    from app.video.cli.job_follower import as_line, exit_of, follow
    from app.video.cli.tables import job_lines

    record = follow(client, uid, as_line if as_json else lambda job: "\n".join([*job_lines(job), ""]))
    if (code := exit_of(record)) is not Exit.OK:
        raise CommandFailed(code)
