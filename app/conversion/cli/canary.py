"""`modelmill canary`: pinned conversions once more, by the toolchain as it is now or by that of another service."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.command import CommandFailed, Exit
from app.kit.cli.service_commands import with_client
from app.kit.cli.service_options import AsJson, token
from app.kit.cli.tables import table_of
from app.kit.errors import NotFound
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from rich.table import Table

    from app.conversion.canary import CanaryRow
    from app.conversion.client import ConversionClient

PINNED = "pinned"
AGAIN = "canary"
"""Tag of the jobs that are made."""
INPUTS = ("model.onnx", "quant.zip")
LISTED_AT_MOST = 1000


@with_client("app.conversion.client:ConversionClient")
def canary(
    client: ConversionClient,
    tag: Annotated[str, typer.Option(help="Tag of the pinned jobs.")] = PINNED,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Address of a service with another version. Default: the same service, after an upgrade.",
        ),
    ] = None,
    max_drop: Annotated[
        float, typer.Option(metavar="DB", min=0, help="Loss of SNR up to which a result counts as equal.")
    ] = 0.5,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Longest time to wait for each job.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert pinned jobs again and show what has changed: SNR, time, size, failures. Exit code 6 if any of them is
    worse."""
    with _open_other(client, against) as target:
        pinned = _list_pinned(client, tag)
        submitted = [(record, _run_again(client, target, record)) for record in pinned]
        rows = [_compare_job(target, before, after["job_id"], max_drop, timeout) for before, after in submitted]
    if as_json:
        typer.echo(json.dumps([row.to_json() for row in rows], indent=2))
    else:
        _show(rows)
    if any(row.is_worse for row in rows):
        raise CommandFailed(Exit.BELOW)


@contextmanager
def _open_other(client: ConversionClient, against: str | None) -> Iterator[ConversionClient]:
    """The service that converts again."""
    from app.conversion.client import ConversionClient

    if against is None:
        yield client
        return
    with ConversionClient(against, token=token()) as target:
        yield target


def _list_pinned(client: ConversionClient, tag: str) -> list[JsonObject]:
    """Oldest first, so that the jobs run again in the order in which they once ran."""
    from app.conversion.client import FINISHED

    finished = [
        record
        for record in client.jobs(limit=LISTED_AT_MOST, q=tag)
        if tag in record["tags"] and record["status"] in FINISHED
    ]
    if not finished:
        raise NotFound(
            f"no finished job has the tag {tag!r}", hint=f"Convert what is to be watched with --tag {tag}, once."
        )
    return finished[::-1]


def _run_again(client: ConversionClient, target: ConversionClient, record: JsonObject) -> JsonObject:
    """Submit the inputs of a job with its own options."""
    keys = [record["artifacts"][name]["key"] for name in INPUTS]
    if target is not client:
        with tempfile.TemporaryDirectory(prefix="modelmill-") as folder:
            files = [
                client.download(record["job_id"], {"name": name, **record["artifacts"][name]}, Path(folder))
                for name in INPUTS
            ]
            sent = target.upload(files[0], files[1])
        keys = [sent["model_key"], sent["quant_key"]]
    return target.submit(keys[0], keys[1], options=record["options"], name=record["name"], tags=(AGAIN,), no_cache=True)


def _compare_job(
    target: ConversionClient, before: JsonObject, job_id: str, max_drop: float, timeout_s: float | None
) -> CanaryRow:
    from app.conversion.canary import compare

    after = before
    for record in target.watch(job_id, timeout_s=timeout_s):
        after = record
    return compare(before, after, drop_db=max_drop)


def _show(rows: Sequence[CanaryRow]) -> None:
    from rich.console import Console

    console = Console()
    console.print(_build_table(rows))
    changed = {tool: pair for row in rows for tool, pair in row.versions.items()}
    if not changed:
        console.print("No version differs: both runs were made by the same tools.", markup=False)
    for tool, (before, after) in sorted(changed.items()):
        console.print(f"{tool}: {before or 'none'} → {after or 'none'}", markup=False, highlight=False)
    for row in rows:
        if row.reason:
            console.print(f"{row.name}: {row.reason}", markup=False, highlight=False, soft_wrap=True)


def _build_table(rows: Sequence[CanaryRow]) -> Table:
    from rich.markup import escape

    table = table_of("name", "outcome", "SNR dB", "seconds", "bytes")
    for row in rows:
        style = "red" if row.is_worse else "green" if row.outcome in ("better", "recovered") else ""
        cells = (
            _format_delta(row.snr_db, ".1f"),
            _format_delta(row.took_s, ".1f"),
            _format_delta(row.size_bytes, ",d"),
        )
        table.add_row(escape(row.name), row.outcome.replace("_", " "), *cells, style=style)
    return table


def _format_delta(pair: tuple[float | None, float | None], form: str) -> str:
    """ "17.2 → 18.0"; a dash for what is not known."""
    return " → ".join("–" if value is None else f"{value:{form}}" for value in pair)
