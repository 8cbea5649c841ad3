"""`modelmill reproduce`: a conversion once more, from the same inputs, and whether the same came out."""

from __future__ import annotations

import json
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.conversion.cli.service import JobId, archive_of, stored_job
from app.kit.cli.command import CommandFailed, Exit
from app.kit.cli.service_commands import with_client
from app.kit.cli.service_options import AsJson
from app.kit.errors import BadRequest, ModelmillError, NotFound
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.conversion.client import ArchiveClient, ConversionClient
    from app.conversion.reproduction import OutputComparison

EPILOG = (
    "Exit codes: 0 the same, to the byte or after normalizing the order of its parts · 1 something differs, or the "
    "conversion failed · 2 the job has no outputs · 3 service not reachable · 4 not found · 5 busy, try again later."
)
TAG = "reproduction"
INPUTS = ("model.onnx", "quant.zip")
WORDS = {
    "BYTES": "equal to the byte",
    "NORMALIZED": "equal after normalizing order",
    "DIFFERENT": "DIFFERENT",
    "MISSING": "MISSING",
}


@with_client("app.conversion.client:ConversionClient")
def reproduce(
    client: ConversionClient,
    job: JobId,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Longest time to wait. The new job continues.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert the inputs of a job again with the same options and without the cache, and compare the results."""
    from app.conversion.reproduction import compare, find_changed_versions

    with archive_of(client) as archive:
        before = _find_record(client, archive, job)
        after = _run_again(client, before, timeout)
        with tempfile.TemporaryDirectory(prefix="modelmill-") as folder:
            outputs = compare(before, after, partial(_fetch, client, archive, Path(folder)))
        versions = find_changed_versions(before, after)
    if as_json:
        _print_json(before, after, outputs, versions)
    else:
        _print(before, after, outputs, versions)
    if not all(output.is_same for output in outputs):
        raise CommandFailed(Exit.FAILED)


def _find_record(client: ConversionClient, archive: ArchiveClient, job: str) -> JsonObject:
    """Of a job that has completed."""
    record = stored_job(client, archive, job)
    if record["status"] != "COMPLETED":
        raise BadRequest(f"job {record['job_id']} is {record['status']}", hint="Name one that has completed.")
    return record


def _fetch(client: ConversionClient, archive: ArchiveClient, folder: Path, record: JsonObject, name: str) -> Path:
    """A file of a job, downloaded; of one that is forgotten, from the archive."""
    target = folder / record["job_id"]
    target.mkdir(exist_ok=True)
    artifact = {"name": name, **record["artifacts"][name]}
    try:
        return client.download(record["job_id"], artifact, target)
    except ModelmillError as error:
        if error.status != NotFound.status:
            raise
        return archive.download(record["job_id"], artifact, target)


def _run_again(client: ConversionClient, before: JsonObject, timeout_s: float | None) -> JsonObject:
    """The new job at its end."""
    from rich.console import Console

    from app.conversion.cli.job_report import show_failure

    keys = [before["artifacts"][name]["key"] for name in INPUTS]
    name, tags = before["name"], (TAG,)
    record = client.submit(keys[0], keys[1], options=before["options"], name=name, tags=tags, no_cache=True)
    for seen in client.watch(record["job_id"], timeout_s=timeout_s):
        record = seen
    if record["status"] != "COMPLETED":
        show_failure(client, record, Console(stderr=True))
        raise CommandFailed(Exit.FAILED)
    return record


def _print(
    before: JsonObject, after: JsonObject, outputs: list[OutputComparison], versions: dict[str, tuple[str, str]]
) -> None:
    typer.echo(f"job {before['job_id']} was made again as {after['job_id']}")
    for output in outputs:
        typer.echo(f"{output.name:<9} {WORDS[output.sameness]}")
        for difference in output.differences:
            typer.echo(f"          {difference}")
    for tool, (then, now) in versions.items():
        typer.echo(f"{tool}: {then} → {now}")
    if not versions:
        typer.echo("No version differs: both were made by the same tools.")


def _print_json(
    before: JsonObject, after: JsonObject, outputs: list[OutputComparison], versions: dict[str, tuple[str, str]]
) -> None:
    answer = {
        "job_id": before["job_id"],
        "again": after["job_id"],
        "outputs": [output.to_json() for output in outputs],
        "versions": {tool: list(pair) for tool, pair in versions.items()},
    }
    typer.echo(json.dumps(answer, indent=2))
