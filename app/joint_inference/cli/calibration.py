"""The command that calibrates a service with hard samples that were kept."""

from __future__ import annotations

import json
import time
from typing import Annotated, Any

import typer

from app.joint_inference.cli.services import POLL_S, FullName, client_of, parted
from app.kit.cli.command import CommandFailed, Exit
from app.kit.cli.service_options import AsJson, Url


def calibrate(
    context: typer.Context,
    service: FullName,
    folder: Annotated[
        str, typer.Option(metavar="FOLDER", help="Of the data home; default: where the service collects.")
    ] = "",
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it has ended.")] = True,
    as_json: AsJson = False,
    url: Url = None,
) -> None:
    """Run both models over the hard samples that were kept, and show the settings of the Pareto front."""
    namespace, name = parted(service)
    with client_of(context, url) as client:
        record = client.calibrate(namespace, name, folder)
        while wait and record["state"] in ("WAITING", "RUNNING"):
            time.sleep(POLL_S)
            record = client.calibration(namespace, name, record["calibration_id"])
    typer.echo(json.dumps(record, indent=2) if as_json else "\n".join(calibration_lines(record)))
    if record["state"] == "FAILED":
        raise CommandFailed(Exit.FAILED)


def calibration_lines(record: dict[str, Any]) -> list[str]:
    """What is known of a calibration."""
    lines = [f"{record['calibration_id']}  {record['state']}  {record['samples']}  {record['links']['page']}"]
    if record["error"]:
        lines.append(" ".join(filter(None, (record["error"]["message"], record["error"].get("hint")))))
    for one in record.get("settings", ()):
        parameters = ", ".join(f"{key}={value}" for key, value in one["parameters"].items())
        lines.append(f"{one['upload']:6.1%} up  {one['quality']:6.1%}  {one['algorithm']} {parameters}".rstrip())
    return lines
