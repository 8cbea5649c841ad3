"""Which service the commands talk to, and how a job is named to it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.partial_ids import SEARCHED_AT_MOST, only_match
from app.kit.cli.service_options import token
from app.kit.cli.tables import print_record
from app.kit.errors import ModelmillError, NotFound
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.conversion.client import ArchiveClient, ConversionClient

FULL_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")

JobId = Annotated[str, typer.Argument(metavar="JOB", help="Id of the job, or the beginning of it.")]
FileNames = Annotated[
    list[str] | None,
    typer.Argument(help="Names of files, such as out.nef bie.json; default: results, reports and logs."),
]
OutFolder = Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Folder for the files.")]


def archive_of(client: ConversionClient) -> ArchiveClient:
    """The archive of the same service."""
    from app.conversion.client import ArchiveClient

    return ArchiveClient(client.url, token=token())


def job_of(client: ConversionClient, prefix: str) -> JsonObject:
    """The record of the job whose id begins so.

    Raises:
        NotFound: There is none.
        BadRequest: There are several, or the prefix is empty.
    """
    hint = "`modelmill jobs list` shows those there are, `modelmill archive list` also those from before a restart."
    beginning = prefix.lower()
    return client.job(beginning) if FULL_ID.fullmatch(beginning) else _find_only(client, beginning, "job", hint)


def stored_job(client: ConversionClient, archive: ArchiveClient, prefix: str) -> JsonObject:
    """See `job_of`; also of a job that only the archive has."""
    try:
        return job_of(client, prefix)
    except ModelmillError as error:
        if error.status != NotFound.status:
            raise
        try:
            record: JsonObject = archive.job(find_archived_id(archive, prefix))["job"]
        except ModelmillError as second:
            raise error if second.status == NotFound.status else second from None
        return record


def find_archived_id(client: ArchiveClient, prefix: str) -> str:
    """See `job_of`; the id of a job of the archive."""
    hint, beginning = "`modelmill archive list` shows what is there.", prefix.lower()
    if FULL_ID.fullmatch(beginning):
        return beginning
    return str(_find_only(client, beginning, "archived job", hint)["job_id"])


def _find_only(client: ConversionClient | ArchiveClient, beginning: str, noun: str, hint: str) -> JsonObject:
    """The entry of the one job of the list whose id begins so."""
    listed = client.jobs(limit=SEARCHED_AT_MOST, q=beginning)
    matches = (job for job in listed if job["job_id"].startswith(beginning))
    return only_match(matches, beginning, field="job_id", noun=noun, hint=hint)


def download_files(
    client: ConversionClient | ArchiveClient, record: JsonObject, out: Path, names: list[str] | None, *, as_json: bool
) -> None:
    """Download files of a job and print where they are. See `fetch`.

    Args:
        client: of the service's jobs, or of its archive.
        record: of the job.
        out: the folder for the files.
        names: of files; None: the results, reports and logs.
        as_json: print JSON of names and paths instead of paths.
    """
    from app.conversion.cli.conversion import fetch

    paths = {name: str(path) for name, path in fetch(client, record, out, names=names or None).items()}
    print_record(paths, "\n".join(paths.values()), as_json=as_json)
