"""`modelmill push`, `modelmill pack`, `modelmill mcp` and `modelmill ci-table`."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.command import EPILOG, CommandFailed, Exit
from app.kit.cli.service_commands import with_client
from app.kit.cli.service_options import AsJson, Url, token, url_of
from app.kit.cli.tables import print_record
from app.kit.errors import BadRequest
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.exchange.client import ExchangeClient

Job = Annotated[str, typer.Argument(metavar="JOB", help="Id of the job, or the beginning of it.")]


def register(root: typer.Typer) -> None:
    root.command("push", epilog=EPILOG)(push)
    root.command("pack", epilog=EPILOG)(pack)
    root.command("mcp", epilog=EPILOG)(mcp)
    root.command("ci-table", epilog=EPILOG)(table)


@with_client("app.exchange.client:ExchangeClient")
def push(
    client: ExchangeClient,
    job: Job,
    target: Annotated[str, typer.Argument(help="Destination: hf://org/model or mlflow://experiment/NAME.")],
    registered_model: Annotated[
        str,
        typer.Option("--register", metavar="NAME", help="Also add a version to this registered model (MLflow only)."),
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Push the NEF, BIE, reports and receipt of a job to MLflow or to a hub, with a model card."""
    started = client.push(_resolve_id(client, job), target, registered_model=registered_model)
    transfer = follow_transfer(client, started, is_quiet=as_json)
    if as_json:
        typer.echo(json.dumps(transfer, indent=2))
    if transfer["error"]:
        raise _make_failure(transfer)
    if not as_json:
        typer.echo(transfer["url"])


@with_client("app.exchange.client:ExchangeClient")
def pack(
    client: ExchangeClient,
    job: Job,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="File to write; default: modelmill-<job>.zip.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download all that is needed to run the model elsewhere, as a ZIP file: NEF, preprocessing, decoder, test inputs
    and smoke.py."""
    job_id = _resolve_id(client, job)
    file = str(client.pack(job_id, out or Path(f"modelmill-{job_id[:8]}.zip")))
    print_record({"file": file}, file, as_json=as_json)


def mcp(context: typer.Context, url: Url = None) -> None:
    """Serve the Model Context Protocol on standard input and output, for AI agents, as the user of MODELMILL_TOKEN."""
    from app.exchange.mcp_server import serve

    serve(url_of(context, url), token())


def table(
    outcome: Annotated[Path, typer.Argument(metavar="FILE", help="Output of `modelmill convert --json`.")],
    goal: Annotated[str, typer.Option(help="The required SNR in dB; empty: none.")] = "",
) -> None:
    """Print the result of a conversion as a Markdown table, for a comment on a pull request."""
    from app.exchange.ci_table import ci_table

    goal_db = _parse_goal(goal)
    try:
        typer.echo(ci_table(json.loads(outcome.read_text(encoding="utf-8")), goal_db))
    except (OSError, ValueError, KeyError, TypeError) as error:
        hint = "It is what `modelmill convert … --json` prints."
        raise BadRequest(f"{outcome} has no outcome of a conversion", hint=hint) from error


def follow_transfer(client: ExchangeClient, transfer: JsonObject, *, is_quiet: bool = False) -> JsonObject:
    """To its end, a line on standard error at each change."""
    last_line = ""
    for seen in client.follow(transfer):
        transfer = seen
        line = _format_transfer(transfer)
        if line != last_line and not is_quiet:
            typer.echo(line, err=True)
        last_line = line
    return transfer


def _format_transfer(transfer: JsonObject) -> str:
    state = transfer["message"] or transfer["state"].lower()
    if not transfer["done_bytes"]:
        return f"{transfer['place']}: {state}"
    total = f" of {transfer['total_bytes'] / 1e6:.1f}" if transfer["total_bytes"] else ""
    return f"{transfer['place']}: {state}, {transfer['done_bytes'] / 1e6:.1f}{total} MB"


def _make_failure(transfer: JsonObject) -> CommandFailed:
    error = transfer["error"]
    typer.echo(f"modelmill: {error['message']}" + (f"\n  {error['hint']}" if error["hint"] else ""), err=True)
    return CommandFailed(Exit.FAILED)


def _resolve_id(client: ExchangeClient, job: str) -> str:
    """Returns the id of the job that begins so."""
    from app.conversion.cli.service import archive_of, stored_job
    from app.conversion.client import ConversionClient

    with ConversionClient(client.url, token=token()) as conversion, archive_of(conversion) as archive:
        return str(stored_job(conversion, archive, job)["job_id"])


def _parse_goal(text: str) -> float | None:
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise BadRequest(f"--goal {text!r} is no number", hint="Give the SNR in dB, such as 20, or nothing.")
    return number
