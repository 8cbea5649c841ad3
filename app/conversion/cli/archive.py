"""`modelmill archive …`: jobs that have completed, also before a restart of the system."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.conversion.cli.service import FileNames, JobId, OutFolder, download_files, find_archived_id
from app.kit.cli.service_commands import ServiceCommands
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_record, print_table
from app.kit.errors import BadRequest

if TYPE_CHECKING:
    from app.conversion.client import ArchiveClient

commands = ServiceCommands(
    "app.conversion.client:ArchiveClient",
    help="The archive of completed jobs, including those from before a restart: list, show, download, convert again, "
    "keep, delete.",
)


@commands.command("list")
def list_archive(
    client: ArchiveClient,
    search: Annotated[str | None, typer.Option("--search", "-q", help="Text in the id, the name or the tags.")] = None,
    tag: Annotated[str | None, typer.Option(help="A tag, as a whole.")] = None,
    model: Annotated[str | None, typer.Option(metavar="SHA256", help="Beginning of the SHA-256 of the model.")] = None,
    verdict: Annotated[
        str | None, typer.Option(metavar="PASSED|BELOW_RULE", help="Only jobs with this verdict.")
    ] = None,
    toolchain: Annotated[str | None, typer.Option(metavar="host|kneron", help="Only jobs of this toolchain.")] = None,
    chip: Annotated[str | None, typer.Option(metavar="520|720|530|630|730", help="Only jobs for this chip.")] = None,
    min_snr: Annotated[float | None, typer.Option(metavar="DB", help="Lowest SNR of the worst output.")] = None,
    max_snr: Annotated[float | None, typer.Option(metavar="DB", help="Largest SNR of the worst output.")] = None,
    kept: Annotated[
        bool | None, typer.Option("--kept/--not-kept", help="Only jobs that are kept permanently, or only others.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Completed at this time or later: 2026-11-20T08:00:00Z, or a day in UTC."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Completed before this time, or before this day.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of jobs, the last completed one first.")] = 20,
    as_json: AsJson = False,
) -> None:
    """List completed jobs, the last completed one first."""
    texts = {"q": search, "tag": tag, "model": model, "toolchain": toolchain, "platform": chip}
    bounds = {"since": since, "until": until, "snr_min_db": min_snr, "snr_max_db": max_snr}
    verdict_filter = verdict.upper() if verdict else None
    rows = list(client.jobs(limit=limit, verdict=verdict_filter, kept=kept, **texts, **bounds))
    from app.conversion.cli.tables import archive_table

    print_table(rows, archive_table, "There are no such jobs in the archive.", as_json=as_json)


@commands.command()
def show(client: ArchiveClient, job: JobId, as_json: AsJson = False) -> None:
    """Show a completed job."""
    archived = client.job(find_archived_id(client, job))
    if as_json:
        typer.echo(json.dumps(archived, indent=2))
        return
    from app.conversion.cli.tables import stage_lines

    record = archived["job"]
    typer.echo(f"job      {record['job_id']}{'  kept' if archived['is_kept'] else ''}")
    typer.echo(f"name     {record['name']}{'  tags ' + ', '.join(record['tags']) if record['tags'] else ''}")
    snr_db = (record["stages"]["bie"]["summary"] or {}).get("snr_db")
    quality = "" if snr_db is None else f"  worst output {snr_db:.1f} dB"
    typer.echo(f"finished {record['finished_at']}  {record['verdict'] or 'quality not measured'}{quality}")
    for line in stage_lines(record):
        typer.echo(line)
    for name, artifact in sorted(record["artifacts"].items()):
        typer.echo(f"file     {name}  {artifact['size_bytes']} bytes  sha256 {artifact['sha256']}")


@commands.command()
def download(
    client: ArchiveClient, job: JobId, names: FileNames = None, out: OutFolder = Path(), as_json: AsJson = False
) -> None:
    """Download files of a completed job. Each is checked against its SHA-256."""
    download_files(client, client.job(find_archived_id(client, job))["job"], out, names, as_json=as_json)


@commands.command()
def keep(
    client: ArchiveClient,
    job: JobId,
    off: Annotated[bool, typer.Option("--off", help="Let the job expire again.")] = False,
    as_json: AsJson = False,
) -> None:
    """Keep a job permanently."""
    job_id = find_archived_id(client, job)
    is_kept = bool(client.edit(job_id, keep=not off)["keep"])
    answer = {"job_id": job_id, "is_kept": is_kept}
    print_record(answer, f"Job {job_id} is kept{'' if is_kept else ' no longer'}.", as_json=as_json)


@commands.command()
def convert(client: ArchiveClient, job: JobId, as_json: AsJson = False) -> None:
    """Convert the inputs of a completed job again, as a new job."""
    record = client.convert_again(find_archived_id(client, job))
    text = f"Job {record['job_id']} is submitted. `modelmill jobs show {record['job_id']}` shows how it goes."
    print_record(record, text, as_json=as_json)


@commands.command("rm")
def remove(
    client: ArchiveClient,
    job: JobId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete a job and all its files permanently."""
    job_id = find_archived_id(client, job)
    if not yes:
        if not sys.stdin.isatty():
            raise BadRequest(f"job {job_id} would be deleted for good", hint="Say --yes if that is what you want.")
        typer.confirm(f"Delete job {job_id} with all its files?", abort=True)
    client.remove(job_id)
    print_record({"removed": job_id}, f"Job {job_id} is deleted.", as_json=as_json)
