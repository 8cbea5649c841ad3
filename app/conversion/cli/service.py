"""Which service the commands talk to, and how a job is named to it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.kit.cli.service_options import token, url_of
from app.kit.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from app.conversion.client import ArchiveClient, ConversionClient

FULL_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SEARCHED_AT_MOST = 1000

JobId = Annotated[str, typer.Argument(metavar="JOB", help="Id of the job, or the beginning of it.")]
FileNames = Annotated[
    list[str] | None,
    typer.Argument(help="Names of files, such as out.nef bie.json; default: results, reports and logs."),
]
OutFolder = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the files.")]


def client_of(context: typer.Context, url: str | None) -> ConversionClient:
    from app.conversion.client import ConversionClient

    return ConversionClient(url_of(context, url), token=token())


def archive_of(context: typer.Context, url: str | None) -> ArchiveClient:
    from app.conversion.client import ArchiveClient

    return ArchiveClient(url_of(context, url), token=token())


def job_of(client: ConversionClient, prefix: str) -> dict[str, Any]:
    """The record of the job whose id begins so. Raises NotFound, or BadRequest when several do."""
    beginning = prefix.lower()
    if FULL_ID.fullmatch(beginning):
        return client.job(beginning)
    records = [
        record for record in client.jobs(limit=SEARCHED_AT_MOST, q=beginning) if record["job_id"].startswith(beginning)
    ]
    if not records:
        hint = "`modelmill jobs list` shows those there are, `modelmill archive list` also those from before a restart."
        raise NotFound(f"there is no job {prefix}", hint=hint)
    if len(records) > 1:
        ids = ", ".join(record["job_id"] for record in records[:5])
        raise BadRequest(f"{len(records)} jobs begin with {prefix}: {ids}", hint="Give more of the id.")
    return records[0]
