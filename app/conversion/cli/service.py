"""Which service the commands talk to, and how a job is named to it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.kit.errors import BadRequest, NotFound

if TYPE_CHECKING:
    from app.conversion.client import Client

DEFAULT_URL = "http://127.0.0.1:8080"
FULL_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SEARCHED_AT_MOST = 1000

Url = Annotated[
    str | None,
    typer.Option("--url", metavar="URL", help=f"Address of the service; else MODELMILL_URL, else {DEFAULT_URL}."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="Id of the job, or the beginning of it.")]


def client_of(context: typer.Context, url: str | None) -> Client:
    """The URL given to the command counts, then the one given before it (or the environment's)."""
    from app.conversion.client import Client

    return Client(url or context.obj or DEFAULT_URL)


def job_of(client: Client, prefix: str) -> dict[str, Any]:
    """The record of the job whose id begins so. Raises NotFound, or BadRequest when several do."""
    wanted = prefix.lower()
    if FULL_ID.fullmatch(wanted):
        return client.job(wanted)
    found = [record for record in client.jobs(limit=SEARCHED_AT_MOST, q=wanted) if record["job_id"].startswith(wanted)]
    if not found:
        raise NotFound(f"there is no job {prefix}", hint="`modelmill jobs list` shows those there are.")
    if len(found) > 1:
        ids = ", ".join(record["job_id"] for record in found[:5])
        raise BadRequest(f"{len(found)} jobs begin with {prefix}: {ids}", hint="Give more of the id.")
    return found[0]
