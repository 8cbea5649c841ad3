"""`modelmill jobs …`: lists and manages jobs."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.conversion.cli.service import FileNames, JobId, OutFolder, archive_of, download_files, job_of, stored_job
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson, Limit
from app.kit.cli.tables import print_record, print_table
from app.kit.cli.terminal_text import print_log
from app.kit.errors import BadRequest, ModelmillError, NotFound
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.conversion.client import ConversionClient

STEPS = ("onnx", "bie", "nef")
FINISHED = ("COMPLETED", "FAILED")
LOOK_AGAIN_S = 0.7

commands = ServiceCommands(
    "app.conversion.client:ConversionClient", help="List, show, follow, cancel and download jobs."
)


@commands.command("list")
def list_jobs(
    client: ConversionClient,
    status: Annotated[
        str | None, typer.Option(metavar="ONNX|BIE|NEF|COMPLETED|FAILED", help="Only jobs with this status.")
    ] = None,
    toolchain: Annotated[str | None, typer.Option(metavar="host|kneron", help="Only jobs of this toolchain.")] = None,
    chip: Annotated[str | None, typer.Option(metavar="520|720|530|630|730", help="Only jobs for this chip.")] = None,
    search: Annotated[str | None, typer.Option("--search", "-q", help="Text in the id, the name or the tags.")] = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List jobs, newest first."""
    status_filter = status.upper() if status else None
    records = list(client.jobs(limit=limit, status=status_filter, toolchain=toolchain, platform=chip, q=search))
    from app.conversion.cli.tables import jobs_table

    print_table(records, partial(jobs_table, now=datetime.now(UTC)), "There are no jobs.", as_json=as_json)


@commands.command()
def show(client: ConversionClient, job: JobId, as_json: AsJson = False) -> None:
    """Show a job."""
    record = job_of(client, job)
    report = client.artifact_json(record["job_id"], "bie.json") if "bie.json" in record["artifacts"] else {}
    if as_json:
        typer.echo(json.dumps(record, indent=2))
        return
    from rich.console import Console

    from app.conversion.cli.job_report import show_quality
    from app.conversion.cli.tables import stage_lines

    console = Console()
    for line in (*_format_head(record), *stage_lines(record)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    show_quality(console, report)


@commands.command()
def logs(
    client: ConversionClient,
    job: JobId,
    step: Annotated[
        str | None, typer.Argument(metavar="onnx|bie|nef", help="The stage; default: all stages so far.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the job has ended.")] = False,
) -> None:
    """Print the log of a job."""
    if step is not None and step.lower() not in STEPS:
        raise BadRequest(f"there is no step {step}", hint="The steps are onnx, bie and nef.")
    job_id = job_of(client, job)["job_id"]
    for name in (step.lower(),) if step else STEPS:
        _print_log(client, job_id, name, follow=follow)


@commands.command()
def actions(client: ConversionClient, job: JobId, as_json: AsJson = False) -> None:
    """Show the next actions for a conversion with their cost, the best one first."""
    from app.conversion.cli.job_report import action_line

    answer = client.actions(job_of(client, job)["job_id"])
    text = "\n".join(map(action_line, answer["actions"])) or "There is nothing to advise."
    print_record(answer, text, as_json=as_json)


@commands.command()
def cancel(client: ConversionClient, job: JobId, as_json: AsJson = False) -> None:
    """Cancel a queued or running job."""
    record = client.cancel(job_of(client, job)["job_id"])
    print_record(record, f"Job {record['job_id']} is cancelled.", as_json=as_json)


@commands.command()
def edit(
    client: ConversionClient,
    job: JobId,
    name: Annotated[str | None, typer.Option(help="New name of the job.")] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="New tags of the job, which replace all others. Can be repeated; '' for none."),
    ] = None,
    notes: Annotated[str | None, typer.Option(help="Notes about the job.")] = None,
    keep: Annotated[
        bool | None, typer.Option("--keep/--no-keep", help="Keep the files of the job permanently, or let them expire.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Change the name, tags or notes of a job, also of one that only the archive has, or keep its files."""
    tags = [one for one in tag if one] if tag else None
    values = {"name": name, "tags": tags, "notes": notes, "keep": keep}
    given = {field: value for field, value in values.items() if value is not None}
    if not given:
        raise BadRequest("nothing is to be changed", hint="Give --name, --tag, --notes, --keep or --no-keep.")
    with archive_of(client) as archive:
        job_id = stored_job(client, archive, job)["job_id"]
        try:
            record = client.edit(job_id, **given)
        except ModelmillError as error:
            if error.status != NotFound.status:
                raise
            record = archive.edit(job_id, **given)
    print_record(record, f"Job {record['job_id']} is changed.", as_json=as_json)


@commands.command()
def share(
    client: ConversionClient,
    job: JobId,
    days: Annotated[int, typer.Option(min=1, max=365, help="Days for which the link is valid.")] = 7,
    label: Annotated[str, typer.Option(help="Whom the link is for.")] = "",
    as_json: AsJson = False,
) -> None:
    """Print a link with which others see the job without an account. It is shown only once."""
    with archive_of(client) as archive:
        job_id = stored_job(client, archive, job)["job_id"]
    link = client.share(job_id, days=days, label=label)
    print_record({"url": link}, link, as_json=as_json)


@commands.command()
def download(
    client: ConversionClient, job: JobId, names: FileNames = None, out: OutFolder = Path(), as_json: AsJson = False
) -> None:
    """Download files of a job. Each is checked against its SHA-256."""
    download_files(client, job_of(client, job), out, names, as_json=as_json)


def _format_head(record: JsonObject) -> list[str]:
    lines = [
        f"job      {record['job_id']}",
        f"name     {record['name']}{'  tags ' + ', '.join(record['tags']) if record['tags'] else ''}",
        f"status   {record['status']}  {record['progress']} %",
        f"created  {record['created_at']}",
    ]
    if record.get("origin"):
        lines.append(f"origin   {record['origin']}")
    if record.get("sweep_id"):
        lines.append(f"sweep    {record['sweep_id']}")
    if record.get("queue_position") is not None:
        lines.append(f"queue    {record['queue_position']} ahead")
    if record.get("is_far_over_usual_time"):
        lines.append(f"late     stage {record['stage']} is far over its usual time")
    error = record["error"]
    if error:
        lines += [f"error    {error['step']}: {error['reason']}", f"hint     {error['hint']}"]
    return lines


def _print_log(client: ConversionClient, job_id: str, step: str, *, follow: bool) -> None:
    """Print what is there; with follow, until the step's log is complete or the job ended without it."""
    offset = 0
    while True:
        part = client.log(job_id, step, offset)
        print_log(part.text)
        offset = part.next_offset
        if part.text:
            continue
        if not follow or part.is_complete or client.job(job_id)["status"] in FINISHED:
            return
        time.sleep(LOOK_AGAIN_S)
