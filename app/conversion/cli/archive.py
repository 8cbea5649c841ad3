"""`modelmill archive …`: jobs that have completed, also before a restart of the system."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.conversion.cli.service import FULL_ID, SEARCHED_AT_MOST, FileNames, JobId, OutFolder, archive_of
from app.kit.cli.command import EPILOG
from app.kit.cli.service_options import AsJson, Url
from app.kit.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from app.conversion.client import ArchiveClient

commands = typer.Typer(
    help="The archive of completed jobs, including those from before a restart: list, show, download, keep, delete.",
    no_args_is_help=True,
    epilog=EPILOG,
)


@commands.command("list")
def list_archive(
    context: typer.Context,
    search: Annotated[str | None, typer.Option("--search", "-q", help="Text in the id, the name or the tags.")] = None,
    tag: Annotated[str | None, typer.Option(help="A tag, as a whole.")] = None,
    model: Annotated[str | None, typer.Option(metavar="SHA256", help="Beginning of the SHA-256 of the model.")] = None,
    verdict: Annotated[
        str | None, typer.Option(metavar="PASSED|BELOW_RULE", help="Only jobs with this verdict.")
    ] = None,
    min_snr: Annotated[float | None, typer.Option(metavar="DB", help="Lowest SNR of the worst output.")] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Completed at this time or later, ISO 8601.")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Completed before this time, ISO 8601.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Largest number of jobs, the last completed one first.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """List completed jobs, the last completed one first."""
    with archive_of(context, url) as client:
        filters = {"q": search, "tag": tag, "model": model, "since": since, "until": until, "snr_min_db": min_snr}
        rows = list(client.jobs(limit=limit, verdict=verdict.upper() if verdict else None, **filters))
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        typer.echo("There is nothing of that in the archive.")
        return
    from rich.console import Console

    from app.conversion.cli.tables import archive_table

    Console().print(archive_table(rows))


@commands.command()
def show(context: typer.Context, job: JobId, as_json: AsJson = False, url: Url = None) -> None:
    """Show a completed job."""
    with archive_of(context, url) as client:
        archived = client.job(_id_of(client, job))
    if as_json:
        typer.echo(json.dumps(archived, indent=2))
        return
    from app.conversion.cli.tables import stage_lines

    record = archived["job"]
    typer.echo(f"job      {record['job_id']}{'  kept' if archived['is_kept'] else ''}")
    typer.echo(f"name     {record['name']}{'  tags ' + ', '.join(record['tags']) if record['tags'] else ''}")
    typer.echo(f"finished {record['finished_at']}  {record['verdict'] or 'quality not measured'}")
    for line in stage_lines(record):
        typer.echo(line)
    for name, artifact in sorted(record["artifacts"].items()):
        typer.echo(f"file     {name}  {artifact['size_bytes']} bytes  sha256 {artifact['sha256']}")


@commands.command()
def download(
    context: typer.Context,
    job: JobId,
    names: FileNames = None,
    out: OutFolder = Path(),
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Download files of a completed job. Each is checked against its SHA-256."""
    from app.conversion.cli.conversion import fetch, print_paths

    with archive_of(context, url) as client:
        files = fetch(client, client.job(_id_of(client, job))["job"], out, names=names or None)
    print_paths(files, as_json=as_json)


@commands.command()
def keep(
    context: typer.Context,
    job: JobId,
    off: Annotated[bool, typer.Option("--off", help="Let the job expire again.")] = False,
    url: Url = None,
) -> None:
    """Keep a job permanently."""
    with archive_of(context, url) as client:
        job_id = _id_of(client, job)
        client.keep(job_id, is_kept=not off)
    typer.echo(f"Job {job_id} is kept{' no longer' if off else ''}.")


@commands.command("rm")
def remove(
    context: typer.Context,
    job: JobId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    url: Url = None,
) -> None:
    """Delete a job and all its files permanently."""
    with archive_of(context, url) as client:
        job_id = _id_of(client, job)
        if not yes:
            if not sys.stdin.isatty():
                raise BadRequest(f"job {job_id} would be deleted for good", hint="Say --yes if that is what you want.")
            typer.confirm(f"Delete job {job_id} with all its files?", abort=True)
        client.remove(job_id)
    typer.echo(f"Job {job_id} is deleted.")


def _id_of(client: ArchiveClient, prefix: str) -> str:
    """Raises NotFound, or BadRequest when several begin so."""
    beginning = prefix.lower()
    if FULL_ID.fullmatch(beginning):
        return beginning
    rows = client.jobs(limit=SEARCHED_AT_MOST, q=beginning)
    job_ids = [row["job_id"] for row in rows if row["job_id"].startswith(beginning)]
    if not job_ids:
        raise NotFound(f"there is no job {prefix} in the archive", hint="`modelmill archive list` shows what is there.")
    if len(job_ids) > 1:
        raise BadRequest(f"{len(job_ids)} jobs begin with {prefix}", hint="Give more of the id.")
    return str(job_ids[0])
